// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices in MXFP4: blocks of 32 numbers of 4 bits (E2M1) with a power of two each (E8M0), by the Open Compute
// Project's Microscaling Formats 1.0. gpt-oss stores an expert's matrix (out, in) as blocks (out, in / 32, 16 bytes),
// the number with the lower index in the lower bits, and scales (out, in / 32).

#include <cstddef>
#include <cstdint>

namespace sft::hub {

inline constexpr std::int64_t mxfp4_block = 32;        ///< numbers that share a scale
inline constexpr std::int64_t mxfp4_block_bytes = 16;  ///< they take

/// Number `index` of those in `blocks`, whose scales are in `scales`. Exact, as transformers dequantizes it.
[[nodiscard]] float mxfp4_value(const std::uint8_t* blocks, const std::uint8_t* scales, std::int64_t index);

}  // namespace sft::hub
