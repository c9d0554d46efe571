// SPDX-License-Identifier: Apache-2.0
#include "mxfp4.hpp"

#include <array>
#include <cmath>

namespace sft::hub {

float mxfp4_value(const std::uint8_t* blocks, const std::uint8_t* scales, std::int64_t index) {
  constexpr std::array<float, 8> magnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  constexpr int bias = 127;
  const unsigned byte = blocks[index / 2];
  const unsigned code = index % 2 == 0 ? byte & 0xfU : byte >> 4U;
  const float magnitude = std::ldexp(magnitudes[code & 7U], static_cast<int>(scales[index / mxfp4_block]) - bias);
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

}  // namespace sft::hub
