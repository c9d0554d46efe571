// SPDX-License-Identifier: Apache-2.0
// Matrices of 8-bit floats; see sft/ops/fp8.hpp.

#include "ops/cpu/kernels/table.hpp"
#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

constexpr std::uint32_t sign_bit = 0x80000000u, infinity_bits = 0x7f800000u, nan_bits = 0x7fc00000u;
constexpr int float_mantissa_bits = 23, float_bias = 127;

/// A format of 8-bit floats. Both have 1.75 * 2^max_exponent as their largest number.
template <int mantissa_bits_, int bias_, int max_exponent_>
struct Format {
  static constexpr int mantissa_bits = mantissa_bits_, bias = bias_, max_exponent = max_exponent_;
  static constexpr int dropped_bits = float_mantissa_bits - mantissa_bits;
  static constexpr std::uint32_t largest_bits =
      static_cast<std::uint32_t>(max_exponent + float_bias) << float_mantissa_bits | 0x600000u;
  static constexpr std::uint32_t least_normal_bits = static_cast<std::uint32_t>(1 - bias + float_bias)
                                                     << float_mantissa_bits;
  /// In float32 its neighbours are as far away as those of a subnormal number of the format.
  static constexpr std::uint32_t subnormal_bits =
      static_cast<std::uint32_t>(1 - bias - mantissa_bits + float_mantissa_bits + float_bias) << float_mantissa_bits;
};
using E4m3 = Format<3, 7, 8>;
using E5m2 = Format<2, 15, 15>;

inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// The code of x, by which PyTorch's conversion rounds too, but for numbers that are too large: they become the
/// largest.
template <class F>
inline std::uint8_t encode(float x) {
  const std::uint32_t bits = bits_of(x), size = bits & ~sign_bit;
  const std::uint32_t held = size < F::largest_bits ? size : F::largest_bits;
  const std::uint32_t odd = held >> F::dropped_bits & 1u;
  const std::uint32_t rebias = static_cast<std::uint32_t>(float_bias - F::bias) << F::mantissa_bits;
  const std::uint32_t normal = ((held + (1u << (F::dropped_bits - 1)) - 1u + odd) >> F::dropped_bits) - rebias;
  // The sum is rounded as a number of the format is, and its last bits count the format's least number.
  const std::uint32_t subnormal = bits_of(float_of(held) + float_of(F::subnormal_bits)) - F::subnormal_bits;
  const std::uint32_t finite = held < F::least_normal_bits ? subnormal : normal;
  const std::uint32_t code = size > infinity_bits ? 0x7fu : finite;
  return static_cast<std::uint8_t>(code | (bits & sign_bit) >> 24);
}

/// The scale of numbers of which the largest has these bits, without a sign.
template <class F>
inline float scale_of(std::uint32_t largest) {
  if (largest >= infinity_bits) return float_of(nan_bits);
  const int exponent = static_cast<int>(largest >> float_mantissa_bits) - float_bias;
  const bool exceeds = (largest & 0x7fffffu) > 0x600000u;
  const int least = 1 - float_bias;
  const int wanted = exponent - F::max_exponent + (exceeds ? 1 : 0);
  return float_of(static_cast<std::uint32_t>((wanted > least ? wanted : least) + float_bias) << float_mantissa_bits);
}

/// Calls f with E4m3 or E5m2.
template <class View, class Function>
void with_format(const View& x, Function f) {
  if (x.is_e5m2) {
    f(E5m2{});
  } else {
    f(E4m3{});
  }
}

/// The bits of the largest magnitude among neighbours.
template <class T>
inline std::uint32_t largest_of(const T* x, std::int64_t size) {
  std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint32_t bits = bits_of(load(x[i])) & ~sign_bit;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

template <class T>
std::uint32_t largest_of_all(ConstView in) {
  std::uint32_t largest = 0;
#pragma omp parallel for reduction(max : largest) if (in.rows * in.columns >= min_parallel_elements)
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const std::uint32_t of_row = largest_of(row<T>(in, r), in.columns);
    largest = of_row > largest ? of_row : largest;
  }
  return largest;
}

/// The scales of a row of tiles that have one column each.
template <class F, class T>
void find_column_scales(float* scales, ConstView in, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t chunk = 64;
  for (std::int64_t first = 0; first < in.columns; first += chunk) {
    const std::int64_t size = min(chunk, in.columns - first);
    std::uint32_t largest[chunk] = {};
    for (std::int64_t r = begin; r < end; ++r) {
      const T* x = row<T>(in, r) + first;
#pragma omp simd
      for (std::int64_t c = 0; c < size; ++c) {
        const std::uint32_t bits = bits_of(load(x[c])) & ~sign_bit;
        largest[c] = bits > largest[c] ? bits : largest[c];
      }
    }
    for (std::int64_t c = 0; c < size; ++c) scales[first + c] = scale_of<F>(largest[c]);
  }
}

template <class F, class T>
void find_tile_scales(Fp8View to, ConstView in) {
  const std::int64_t num_tile_rows = divide_up(to.rows, to.tile_rows);
#pragma omp parallel for if (in.rows * in.columns >= min_parallel_elements)
  for (std::int64_t tile_row = 0; tile_row < num_tile_rows; ++tile_row) {
    const std::int64_t begin = tile_row * to.tile_rows, end = min(begin + to.tile_rows, to.rows);
    float* scales = to.scales + tile_row * to.scale_columns;
    if (to.tile_columns == 1) {
      find_column_scales<F, T>(scales, in, begin, end);
      continue;
    }
    for (std::int64_t tile = 0; tile < to.scale_columns; ++tile) {
      const std::int64_t first = tile * to.tile_columns, size = min(to.tile_columns, to.columns - first);
      std::uint32_t largest = 0;
      for (std::int64_t r = begin; r < end; ++r) {
        const std::uint32_t of_row = largest_of(row<T>(in, r) + first, size);
        largest = of_row > largest ? of_row : largest;
      }
      scales[tile] = scale_of<F>(largest);
    }
  }
}

void find_fp8_scales(Fp8View to, ConstView in) {
  with_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
    with_format(to, [&](auto format) {
      using F = decltype(format);
      if (to.tile_rows >= to.rows && to.tile_columns >= to.columns) {
        *to.scales = scale_of<F>(largest_of_all<T>(in));
      } else {
        find_tile_scales<F, T>(to, in);
      }
    });
  });
}

void round_to_fp8(Fp8View to, ConstView in) {
  with_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
    with_format(to, [&](auto format) {
      using F = decltype(format);
#pragma omp parallel for if (in.rows * in.columns >= min_parallel_elements)
      for (std::int64_t r = 0; r < in.rows; ++r) {
        const T* from = row<T>(in, r);
        std::uint8_t* codes = to.codes + r * to.columns;
        const float* scales = to.scales + r / to.tile_rows * to.scale_columns;
        if (to.tile_columns == 1) {
#pragma omp simd
          for (std::int64_t c = 0; c < to.columns; ++c) codes[c] = encode<F>(load(from[c]) / scales[c]);
          continue;
        }
        for (std::int64_t tile = 0; tile < to.scale_columns; ++tile) {
          const float factor = 1.0f / scales[tile];  // as exact as the division
          const std::int64_t end = min((tile + 1) * to.tile_columns, to.columns);
#pragma omp simd
          for (std::int64_t c = tile * to.tile_columns; c < end; ++c) codes[c] = encode<F>(load(from[c]) * factor);
        }
      }
    });
  });
}

/// The number of a code, without a branch, so that neighbours are read side by side.
template <class F>
inline float number_of(std::uint8_t code) {
  const std::uint32_t size = code & 0x7fu;
  const std::uint32_t rebias = static_cast<std::uint32_t>(float_bias - F::bias) << float_mantissa_bits;
  const std::uint32_t normal = (size << F::dropped_bits) + rebias;
  const std::uint32_t subnormal = bits_of(float_of(F::subnormal_bits + size) - float_of(F::subnormal_bits));
  const std::uint32_t finite = size < 1u << F::mantissa_bits ? subnormal : normal;
  const std::uint32_t number = normal > F::largest_bits ? nan_bits : finite;  // nothing is rounded to infinity
  return float_of(number | static_cast<std::uint32_t>(code & 0x80u) << 24);
}

void read_fp8(View out, ConstFp8View from, std::int64_t first_row, std::int64_t first_column) {
  with_type(out, [&](auto type) {
    using T = typename decltype(type)::type;
    with_format(from, [&](auto format) {
      using F = decltype(format);
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
      for (std::int64_t r = 0; r < out.rows; ++r) {
        T* to = row<T>(out, r);
        const std::uint8_t* codes = from.codes + (first_row + r) * from.columns + first_column;
        const float* scales = from.scales + (first_row + r) / from.tile_rows * from.scale_columns;
        if (from.tile_columns == 1) {
#pragma omp simd
          for (std::int64_t c = 0; c < out.columns; ++c)
            store(to[c], number_of<F>(codes[c]) * scales[first_column + c]);
          continue;
        }
        for (std::int64_t begin = 0; begin < out.columns;) {
          const std::int64_t tile = (first_column + begin) / from.tile_columns;
          const std::int64_t end = min((tile + 1) * from.tile_columns - first_column, out.columns);
          const float scale = scales[tile];
#pragma omp simd
          for (std::int64_t c = begin; c < end; ++c) store(to[c], number_of<F>(codes[c]) * scale);
          begin = end;
        }
      }
    });
  });
}

}  // namespace

void enter_fp8(Kernels& table) {
  table.find_fp8_scales = find_fp8_scales;
  table.round_to_fp8 = round_to_fp8;
  table.read_fp8 = read_fp8;
}

}  // namespace sft::ops::cpu::SFT_ISA
