// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices in MXFP4: blocks of 32 numbers of 4 bits (E2M1) with a power of two each (E8M0), by the Open Compute
// Project's Microscaling Formats 1.0. gpt-oss stores an expert's matrix (out, in) as blocks (out, in / 32, 16 bytes),
// the number with the lower index in the lower bits, and scales (out, in / 32).

#include <array>
#include <cmath>
#include <cstdint>

namespace sft::hub {

inline constexpr std::int64_t mxfp4_block = 32;        ///< numbers that share a scale
inline constexpr std::int64_t mxfp4_block_bytes = 16;  ///< they take

/// Number `index` of those in `blocks`, whose scales are in `scales`. Exact, as transformers dequantizes it.
[[nodiscard]] inline float mxfp4_value(const std::uint8_t* blocks, const std::uint8_t* scales, std::int64_t index) {
  constexpr std::array<float, 8> magnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  constexpr int bias = 127;
  const unsigned byte = blocks[index / 2];
  const unsigned code = index % 2 == 0 ? byte & 0xfU : byte >> 4U;
  const float magnitude = std::ldexp(magnitudes[code & 7U], static_cast<int>(scales[index / mxfp4_block]) - bias);
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

}  // namespace sft::hub
