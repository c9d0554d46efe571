// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in for src/hardware/ops/cuda/ptx.cuh where kernels are compiled for the host: the same functions, with
// matrices held by the lanes of a warp as described there.

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "runtime/block.hpp"
#include "runtime/device_properties.hpp"

#define SFT_SITE_PARAMETERS const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace sft::ops::cuda::ptx {

namespace detail {

/// The numbers of a register that holds two of bf16.
struct Pair {
  union {
    std::uint32_t bits[2];
    float numbers[2];
  };
  SFT_EMULATION_UNCHECKED explicit Pair(std::uint32_t pair) : bits{pair << 16, pair & 0xffff0000U} {}
};

struct MmaLane {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

/// Numbers side by side: each sum runs over k in order, whatever runs beside it.
using Row = float __attribute__((vector_size(32)));

SFT_EMULATION_UNCHECKED inline void multiply(void* const* lanes) {
  sft::emulation::count_matrix_product();
  float a[16][16];
  Row b[16], sums[16];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& self = *static_cast<const MmaLane*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const Pair pair(self.a[i]);
      for (int half = 0; half < 2; ++half) a[g + i % 2 * 8][2 * t + i / 2 * 8 + half] = pair.numbers[half];
    }
    for (int i = 0; i < 2; ++i) {
      const Pair pair(self.b[i]);
      for (int half = 0; half < 2; ++half) b[2 * t + 8 * i + half][g] = pair.numbers[half];
    }
  }
  for (int row = 0; row < 16; ++row) {
    Row sum = {};
    for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k];
    sums[row] = sum;
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& self = *static_cast<const MmaLane*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = 2 * (lane % 4) + i % 2;
      self.c[i] += sums[row][column];
    }
  }
}

struct LoadLane {
  std::uint32_t* m;
  const std::uint16_t* row;
};

template <bool kTransposes>
SFT_EMULATION_UNCHECKED void load(void* const* lanes) {
  sft::emulation::count_matrix_load();
  std::uint32_t elements[4][8][8];
  for (int row = 0; row < 32; ++row) {
    const std::uint16_t* const from = static_cast<const LoadLane*>(lanes[row])->row;
    for (int column = 0; column < 8; ++column) elements[row / 8][row % 8][column] = from[column];
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& self = *static_cast<const LoadLane*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto& of = elements[matrix];
      self.m[matrix] = kTransposes ? of[2 * t][g] | of[2 * t + 1][g] << 16 : of[g][2 * t] | of[g][2 * t + 1] << 16;
    }
  }
}

template <bool kTransposes>
void load_together(std::uint32_t (&m)[4], const void* row, const char* file, int line) {
  sft::emulation::check_read(row, 16, 16, "ldmatrix");
  LoadLane self{m, static_cast<const std::uint16_t*>(row)};
  sft::emulation::warp_collective("ldmatrix", &self, load<kTransposes>, {file, line});
}

}  // namespace detail

inline void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                         SFT_SITE_PARAMETERS) {
  detail::MmaLane self{c, a, {b0, b1}};
  sft::emulation::warp_collective("mma.sync", &self, detail::multiply, {file, line});
}

inline void load_matrices(std::uint32_t (&m)[4], const void* row, SFT_SITE_PARAMETERS) {
  detail::load_together<false>(m, row, file, line);
}
inline void load_matrices_transposed(std::uint32_t (&m)[4], const void* row, SFT_SITE_PARAMETERS) {
  detail::load_together<true>(m, row, file, line);
}

inline void copy_16_async(void* shared, const void* global, bool is_there) {
  sft::emulation::defer_copy(shared, global, 16, is_there ? 16 : 0);
}
inline void copy_4_async(void* shared, const void* global, bool is_there) {
  sft::emulation::defer_copy(shared, global, 4, is_there ? 4 : 0);
}
inline void commit_copies() { sft::emulation::commit_copies(); }
template <int kNewest>
void wait_copies() {
  sft::emulation::wait_copies(kNewest);
}

template <class Vector>
void store_vector(Vector* at, Vector value) {
  *at = value;
}

inline bool has_fp8() { return sft::emulation::compute_capability() >= 89; }

namespace detail {

/// The nearest of the numbers of a format, by comparing with them; ties to the one whose code is even, NaN as the real
/// instruction writes it.
inline std::uint32_t fp8_code(float x, int mantissa_bits, int bias, std::uint32_t largest_code) {
  if (std::isnan(x)) return 0x7f;
  const double size = std::fabs(static_cast<double>(x));
  const auto number_of = [&](std::uint32_t code) {
    const int exponent = static_cast<int>(code >> mantissa_bits), one = 1 << mantissa_bits;
    const int digits = static_cast<int>(code) % one + (exponent == 0 ? 0 : one);
    return std::ldexp(digits, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
  };
  std::uint32_t below = 0, beyond = largest_code + 1;  // number_of(below) <= size < number_of(beyond), but for the last
  while (beyond - below > 1) {
    const std::uint32_t middle = (below + beyond) / 2;
    (number_of(middle) <= size ? below : beyond) = middle;
  }
  std::uint32_t code = below;
  if (below < largest_code) {
    const double to_below = size - number_of(below), to_above = number_of(below + 1) - size;
    if (to_above < to_below || (to_above == to_below && below % 2 == 1)) code = below + 1;
  }
  return code | (std::signbit(x) ? 0x80U : 0U);
}

}  // namespace detail

inline std::uint32_t e4m3_pair(float first, float second) {
  return detail::fp8_code(first, 3, 7, 0x7e) | detail::fp8_code(second, 3, 7, 0x7e) << 8;
}
inline std::uint32_t e5m2_pair(float first, float second) {
  return detail::fp8_code(first, 2, 15, 0x7b) | detail::fp8_code(second, 2, 15, 0x7b) << 8;
}

inline float exp2_fast(float x) {
  const float y = std::exp2(x);
  return y < FLT_MIN ? 0.0F : y;
}

inline int opaque(int x) { return x; }

}  // namespace sft::ops::cuda::ptx

#undef SFT_SITE_PARAMETERS
