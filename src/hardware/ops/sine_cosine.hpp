// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sine and cosine without branches, the same polynomials in all backends (S. Moshier's Cephes library), within about 2
// units in the last place, and what random directions are made of with them. constexpr and static as in
// random_bits.hpp.

#include <cstdint>

namespace sft::ops {

/// Sine and cosine of quarter * pi/2 + r, |r| <= pi/4.
static constexpr void sine_cosine_of(std::int32_t quarter, float r, float& sine, float& cosine) {
  const float square = r * r;
  float s = -1.9515295891e-4f;
  s = s * square + 8.3321608736e-3f;
  s = s * square - 1.6666654611e-1f;
  s = s * square * r + r;
  float c = 2.443315711809948e-5f;
  c = c * square - 1.388731625493765e-3f;
  c = c * square + 4.166664568298827e-2f;
  c = c * square * square - 0.5f * square + 1.0f;
  const bool swapped = (quarter & 1) != 0;
  const float sine_magnitude = swapped ? c : s;
  const float cosine_magnitude = swapped ? s : c;
  sine = (quarter & 2) != 0 ? -sine_magnitude : sine_magnitude;
  cosine = ((quarter + 1) & 2) != 0 ? -cosine_magnitude : cosine_magnitude;
}

// Pairs of normal numbers from pairs of random words (Box and Muller 1958): radius = sqrt(-2 log u), in a direction
// that is drawn evenly. The logarithm is each backend's own.

/// u in (0, 1] from the upper 24 bits of a word.
static constexpr float box_muller_uniform(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8) + 1) * 0x1p-24f;
}

/// The two coordinates at `radius`, in the direction of the upper 24 bits of `word`.
static constexpr void box_muller_pair(float radius, std::uint32_t word, float& first, float& second) {
  // A turn is 2^24 steps: the upper two of 24 bits, rounded, are the quarter.
  const std::int32_t turn = static_cast<std::int32_t>(word >> 8);
  const std::int32_t quarter = (turn + 0x200000) >> 22;
  const float angle = static_cast<float>(turn - quarter * 0x400000) * (1.57079632679489662f * 0x1p-22f);
  float sine = 0, cosine = 0;
  sine_cosine_of(quarter, angle, sine, cosine);
  first = radius * cosine;
  second = radius * sine;
}

}  // namespace sft::ops
