// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pairs of normal numbers from pairs of random words (Box and Muller 1958): radius = sqrt(-2 log u), in a direction
// that is drawn evenly. The logarithm is each backend's own. constexpr and static as in random_bits.hpp.

#include "ops/sine_cosine.hpp"

namespace sft::ops {

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
