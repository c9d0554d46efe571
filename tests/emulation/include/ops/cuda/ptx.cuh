// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in for src/ops/cuda/ptx.cuh where kernels are compiled for the host: the same functions, with matrices held by
// the lanes of a warp as described there.

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

/// Element `half` of a register that holds two of bf16.
inline float element(std::uint32_t pair, int half) {
  const std::uint32_t bits = half == 0 ? pair << 16 : pair & 0xffff0000U;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct MmaLane {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

inline void multiply(void* const* lanes) {
  sft::emulation::count_matrix_product();
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& self = *static_cast<const MmaLane*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      for (int half = 0; half < 2; ++half) a[g + i % 2 * 8][2 * t + i / 2 * 8 + half] = element(self.a[i], half);
    }
    for (int i = 0; i < 2; ++i) {
      for (int half = 0; half < 2; ++half) b[2 * t + 8 * i + half][g] = element(self.b[i], half);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& self = *static_cast<const MmaLane*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = 2 * (lane % 4) + i % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      self.c[i] += sum;
    }
  }
}

struct LoadLane {
  std::uint32_t* m;
  const std::uint16_t* row;
};

template <bool kTransposes>
void load(void* const* lanes) {
  sft::emulation::count_matrix_load();
  for (int lane = 0; lane < 32; ++lane) {
    const auto& self = *static_cast<const LoadLane*>(lanes[lane]);
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto at = [&](int row, int column) -> std::uint32_t {
        return static_cast<const LoadLane*>(lanes[8 * matrix + row])->row[column];
      };
      const int g = lane / 4, t = lane % 4;
      self.m[matrix] = kTransposes ? at(2 * t, g) | at(2 * t + 1, g) << 16 : at(g, 2 * t) | at(g, 2 * t + 1) << 16;
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

/// The nearest of the numbers of a format, by trying them all; ties to the one whose code is even, NaN as the real
/// instruction writes it.
inline std::uint32_t fp8_code(float x, int mantissa_bits, int bias, std::uint32_t largest_code) {
  if (std::isnan(x)) return 0x7f;
  const double size = std::fabs(static_cast<double>(x));
  const auto number_of = [&](std::uint32_t code) {
    const int exponent = static_cast<int>(code >> mantissa_bits), one = 1 << mantissa_bits;
    const int digits = static_cast<int>(code) % one + (exponent == 0 ? 0 : one);
    return std::ldexp(digits, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
  };
  std::uint32_t below = 0;
  while (below < largest_code && number_of(below + 1) <= size) ++below;
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
