// SPDX-License-Identifier: Apache-2.0
#pragma once
// What codes of 4 bits stand for, as bitsandbytes has it (bitsandbytes.functional.get_4bit_type): NormalFloat of
// Dettmers et al. 2023, "QLoRA", and a float of 1 sign, 2 exponent and 1 mantissa bits. Plain C++17 without inline
// functions: for every compiler and instruction set (ops/cpu/kernels.hpp).

#include <cstdint>

namespace sft {

/// Numbers that share a scale, the largest magnitude among them: neighbours in a row of a matrix.
inline constexpr std::int64_t four_bit_block = 64;
/// A block in memory: its codes, two a byte, the first one in the upper bits, and then its scale.
inline constexpr std::int64_t four_bit_code_bytes = four_bit_block / 2;
/// Scales that share one, where scales are codes themselves.
inline constexpr std::int64_t nested_scale_block = 256;

/// Ascending.
inline constexpr float nf4_values[16] = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};

/// By their bits: twelfths of 0, 1/16, 8, 12, 4, 6, 2 and 3.
inline constexpr float fp4_values[16] = {
    0.0f, 0.0625f / 12.0f,  8.0f / 12.0f,  1.0f,  4.0f / 12.0f,  6.0f / 12.0f,  2.0f / 12.0f,  3.0f / 12.0f,
    0.0f, -0.0625f / 12.0f, -8.0f / 12.0f, -1.0f, -4.0f / 12.0f, -6.0f / 12.0f, -2.0f / 12.0f, -3.0f / 12.0f};

}  // namespace sft
