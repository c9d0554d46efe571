// SPDX-License-Identifier: Apache-2.0
#pragma once
// Codes and scales of 8-bit floats, for their kernels: blocks of 256 threads take 128 x 128 elements at a time. See
// sft/ops/fp8.hpp.

#include <cstdint>

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/warp.cuh"
#include "ops/views/fp8.hpp"

namespace sft::ops::cuda::fp8 {

constexpr unsigned threads = 256;
constexpr int side = static_cast<int>(fp8_tile_side);
constexpr unsigned infinity_bits = 0x7f800000u;
constexpr float least_scale = 0x1p-126f;

using Tiles = Fp8View::Tiles;

/// A format of 8-bit floats. Both have 1.75 * 2^max_exponent as their largest number.
struct Format {
  int mantissa_bits, bias, max_exponent;

  __device__ __forceinline__ static Format of(bool is_e5m2) { return is_e5m2 ? Format{2, 15, 15} : Format{3, 7, 8}; }
};

__device__ __forceinline__ unsigned magnitude_bits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

/// The scale of numbers of which the largest has these bits, without a sign.
__device__ __forceinline__ float scale_of(unsigned largest, int max_exponent) {
  if (largest >= infinity_bits) return __uint_as_float(infinity_bits);
  const int exponent = static_cast<int>(largest >> 23) - 127;
  const int wanted = exponent - max_exponent + ((largest & 0x7fffffu) > 0x600000u ? 1 : 0);
  return __uint_as_float(static_cast<unsigned>(max(wanted, -126) + 127) << 23);
}

/// The code of the bits of a number that is not negative: rounded to the nearest, ties to even, and the largest at
/// most. Of all numbers but NaN.
__device__ __forceinline__ unsigned encode(unsigned bits, const Format& format) {
  const int dropped = 23 - format.mantissa_bits;
  const unsigned largest = static_cast<unsigned>(format.max_exponent + 127) << 23 | 0x600000u;
  const unsigned held = min(bits, largest);
  if (held < static_cast<unsigned>(128 - format.bias) << 23) {
    // As float32 the neighbours of `unit` are as far away as subnormal numbers of the format: a sum is rounded as these
    // are, and its last bits count the least of them.
    const unsigned unit = static_cast<unsigned>(1 - format.bias - format.mantissa_bits + 23 + 127) << 23;
    return __float_as_uint(__fadd_rn(__uint_as_float(held), __uint_as_float(unit))) - unit;
  }
  const unsigned odd = held >> dropped & 1u;
  const unsigned rebias = static_cast<unsigned>(127 - format.bias) << format.mantissa_bits;
  return ((held + (1u << (dropped - 1)) - 1u + odd) >> dropped) - rebias;
}

/// The codes of a and b times the factor, each with the sign of its number: b's in the upper byte of 16 bits.
__device__ __forceinline__ unsigned encode_pair(float a, float b, float factor, bool is_e5m2) {
  const float scaled_a = __fmul_rn(fabsf(a), factor), scaled_b = __fmul_rn(fabsf(b), factor);
  unsigned low = 0, high = 0;
  if (ptx::has_fp8()) {
    const unsigned pair = is_e5m2 ? ptx::e5m2_pair(scaled_a, scaled_b) : ptx::e4m3_pair(scaled_a, scaled_b);
    low = pair & 0xffu;
    high = pair >> 8;
  } else {
    const Format format = Format::of(is_e5m2);
    low = encode(__float_as_uint(scaled_a), format);
    high = encode(__float_as_uint(scaled_b), format);
  }
  if (magnitude_bits(scaled_a) > infinity_bits) low = 0x7fu;
  if (magnitude_bits(scaled_b) > infinity_bits) high = 0x7fu;
  return low | high << 8 | (__float_as_uint(a) >> 24 & 0x80u) | (__float_as_uint(b) >> 16 & 0x8000u);
}

__device__ __forceinline__ unsigned encode_four(const float (&x)[4], float factor, bool is_e5m2) {
  return encode_pair(x[0], x[1], factor, is_e5m2) | encode_pair(x[2], x[3], factor, is_e5m2) << 16;
}

/// Of all threads of the block. `scratch`, shared memory, holds a number for each warp.
__device__ __forceinline__ unsigned block_max(unsigned x, unsigned* scratch) {
  for (int distance = 16; distance > 0; distance /= 2) x = max(x, __shfl_xor_sync(all_lanes, x, distance));
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, num_warps = threads / warp_size;
  if (thread % warp_size == 0) scratch[thread / warp_size] = x;
  __syncthreads();
  for (unsigned warp = 0; warp < num_warps; ++warp) x = max(x, scratch[warp]);
  return x;
}

/// What a thread of a block has of 128 x 128 numbers: V neighbours at a time, `parts` of them in each of `rows` rows,
/// one below the other.
template <int V>
struct Share {
  static constexpr int lanes = side / V < 32 ? side / V : 32;  ///< threads side by side
  static constexpr int parts = side / (V * lanes);
  static constexpr int groups = static_cast<int>(threads) / lanes;  ///< of such threads
  static constexpr int rows = side / groups;
};

}  // namespace sft::ops::cuda::fp8
