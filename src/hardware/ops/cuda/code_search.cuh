// SPDX-License-Identifier: Apache-2.0
#pragma once
// The code of 8 bits whose value is nearest to a number, from one entry of a table in shared memory. An entry is for
// the numbers of which sign aside the upper bits are equal. These are so many that at most one border between codes
// lies among them: the entry has the code below it, and the border's lower bits.

#include <cmath>
#include <cstdint>

#include "ops/cuda/launch.cuh"
#include "sft/core/block_codes.hpp"

namespace sft::ops::cuda {

/// With a sign, the table is over magnitudes: how many codes they are from that of zero.
template <bool is_signed>
struct CodeSearch {
  static constexpr unsigned shift = is_signed ? 17 : 16;  ///< the lower bits
  static constexpr unsigned low_mask = (1u << shift) - 1, no_border = 1u << 19, code_shift = 20;
  /// All that is below 2^-23, and more, is nearest to zero; nothing is above 1.
  static constexpr unsigned first_key = (127u - 23u) << (23 - shift), last_key = 127u << (23 - shift);
  static constexpr unsigned num_entries = last_key - first_key + 1;
  static constexpr int zero_code = is_signed ? signed_zero_code : 0;

  /// `borders` of a BlockCode.
  static __device__ __forceinline__ std::uint32_t make_entry(unsigned number, const float* borders) {
    const unsigned key = first_key + number;
    const int code = nearest_code(borders, __uint_as_float(key << shift));
    const unsigned border = code < 255 ? __float_as_uint(borders[code]) : 0;
    return static_cast<unsigned>(code - zero_code) << code_shift |
           (border >> shift == key ? border & low_mask : no_border);
  }

  /// How far the code of `magnitude`, 0 to 1, is from that of zero; the farther one of two where `is_farther`.
  static __device__ __forceinline__ int distance(const std::uint32_t* entries, float magnitude, bool is_farther) {
    const unsigned bits = __float_as_uint(magnitude), key = bits >> shift;
    const std::uint32_t entry = entries[(key > first_key ? key : first_key) - first_key];
    const unsigned low = (bits & low_mask) + (is_farther ? 1 : 0), border = entry & ((1u << code_shift) - 1);
    return static_cast<int>(entry >> code_shift) + (low > border ? 1 : 0);
  }
};

/// Divides by `divisor`, which is not negative, and rounds as a division does, as far as that shows in a code:
/// quotients are at most 1, and of those below 2^-100 the last bits may be wrong. One division for many.
struct CodeDivisor {
  float scale, divisor, inverse;  ///< scale: a power of two that keeps what is computed away from the ends of the range

  __device__ __forceinline__ explicit CodeDivisor(float by) {
    const unsigned exponent = __float_as_uint(by) >> 23;
    scale = __uint_as_float((exponent < 253 ? 254 - exponent : 1u) << 23);
    const bool is_usual = by > 0.0f && by < INFINITY;  // else quotients are 0, of infinity and NaN NaN
    divisor = is_usual ? by * scale : 0.0f;
    inverse = is_usual ? 1.0f / divisor : 0.0f;
  }
  __device__ __forceinline__ float of(float x) const {
    const float scaled = x * scale;
    float quotient = scaled * inverse;
    quotient = fmaf(fmaf(-quotient, divisor, scaled), inverse, quotient);
    return fmaf(fmaf(-quotient, divisor, scaled), inverse, quotient);  // Markstein 1990: rounded correctly
  }
};

}  // namespace sft::ops::cuda
