// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sine and cosine without branches, the same polynomials in all backends (S. Moshier's Cephes library), within about 2
// units in the last place. constexpr and static as in random_bits.hpp.

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

}  // namespace sft::ops
