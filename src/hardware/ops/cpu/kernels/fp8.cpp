// SPDX-License-Identifier: Apache-2.0
// Matrices of 8-bit floats; see sft/ops/fp8.hpp.

#include "ops/cpu/kernels/run.hpp"
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

/// The code of x times the factor, which has the sign of x, also where it is NaN. PyTorch's conversion rounds so too,
/// but for numbers that are too large: they become the largest.
template <class F>
inline std::uint8_t encode(float x, float factor) {
  const std::uint32_t size = bits_of(x * factor) & ~sign_bit;
  const std::uint32_t held = size < F::largest_bits ? size : F::largest_bits;
  const std::uint32_t odd = held >> F::dropped_bits & 1u;
  const std::uint32_t rebias = static_cast<std::uint32_t>(float_bias - F::bias) << F::mantissa_bits;
  const std::uint32_t normal = ((held + (1u << (F::dropped_bits - 1)) - 1u + odd) >> F::dropped_bits) - rebias;
  // The sum is rounded as a number of the format is, and its last bits count the format's least number.
  const std::uint32_t subnormal = bits_of(float_of(held) + float_of(F::subnormal_bits)) - F::subnormal_bits;
  const std::uint32_t finite = held < F::least_normal_bits ? subnormal : normal;
  const std::uint32_t code = size > infinity_bits ? 0x7fu : finite;
  return static_cast<std::uint8_t>(code | (bits_of(x) & sign_bit) >> 24);
}

/// The scale of numbers of which the largest has these bits, without a sign.
template <class F>
inline float scale_of(std::uint32_t largest) {
  if (largest >= infinity_bits) return float_of(infinity_bits);
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

/// The first line and term of a tile, and how many it has.
struct Tile {
  std::int64_t line, lines, term, terms;
};

/// Writes the numbers of the tile to `numbers`, a line to every fp8_tile_side.
template <class T>
void read_tile(float* numbers, ConstView in, bool transpose, const Tile& tile) {
  if (transpose) {
    for (std::int64_t t = 0; t < tile.terms; ++t) {
      const T* from = row<T>(in, tile.term + t) + tile.line;
      for (std::int64_t l = 0; l < tile.lines; ++l) numbers[l * fp8_tile_side + t] = load(from[l]);
    }
    return;
  }
  for (std::int64_t l = 0; l < tile.lines; ++l) {
    const T* from = row<T>(in, tile.line + l) + tile.term;
    float* to = numbers + l * fp8_tile_side;
#pragma omp simd
    for (std::int64_t t = 0; t < tile.terms; ++t) to[t] = load(from[t]);
  }
}

/// Rounds the lines of a tile, each with its scale, and ends the last tiles of lines with zeros.
template <class F>
void encode_tile(Fp8View to, const Tile& tile, const float* numbers, const float* scales) {
  const std::int64_t end = tile.term + tile.terms;
  for (std::int64_t l = 0; l < tile.lines; ++l) {
    const float* from = numbers + l * fp8_tile_side;
    std::uint8_t* codes = to.codes + (tile.line + l) * to.line_codes + tile.term;
    const float factor = 1.0f / scales[l];  // as exact as the division
#pragma omp simd
    for (std::int64_t t = 0; t < tile.terms; ++t) codes[t] = encode<F>(from[t], factor);
    if (end == to.terms) {
      for (std::int64_t t = tile.terms; t < to.line_codes - tile.term; ++t) codes[t] = 0;
    }
  }
}

/// The scales of the lines of a tile, which are written where they have their place unless there is one for the whole
/// matrix, which is there.
template <class F>
void scale_tile(float* scales, Fp8View to, const Tile& tile, const float* numbers) {
  std::uint32_t largest = 0;
  for (std::int64_t l = 0; l < tile.lines; ++l) {
    const std::uint32_t of_line = largest_of(numbers + l * fp8_tile_side, tile.terms);
    largest = of_line > largest ? of_line : largest;
    scales[l] = scale_of<F>(of_line);
  }
  if (to.tiles == Fp8View::Tiles::vectors) {
    float* const out = to.scales + tile.term / fp8_tile_side * to.row_scales + tile.line;
    for (std::int64_t l = 0; l < tile.lines; ++l) out[l] = scales[l];
    return;
  }
  const float scale = scale_of<F>(largest);
  to.scales[tile.line / fp8_tile_side * to.row_scales + tile.term / fp8_tile_side] = scale;
  for (std::int64_t l = 0; l < tile.lines; ++l) scales[l] = scale;
}

template <class F>
void round_numbers(Fp8View to, const Tile& tile, const float* numbers, const float* whole_scale) {
  float scales[fp8_tile_side];
  if (to.tiles == Fp8View::Tiles::whole) {
    for (std::int64_t l = 0; l < tile.lines; ++l) scales[l] = *whole_scale;
  } else {
    scale_tile<F>(scales, to, tile, numbers);
  }
  encode_tile<F>(to, tile, numbers, scales);
}

template <class F, class T>
void round_tile(const Fp8Rounding& call, const Tile& tile) {
  float numbers[fp8_tile_side * fp8_tile_side];
  read_tile<T>(numbers, call.in, call.transpose, tile);
  round_numbers<F>(call.out, tile, numbers, call.out.scales);
  if (call.turned.codes == nullptr) return;
  float turned[fp8_tile_side * fp8_tile_side];
  for (std::int64_t t = 0; t < tile.terms; ++t) {
    for (std::int64_t l = 0; l < tile.lines; ++l) turned[t * fp8_tile_side + l] = numbers[l * fp8_tile_side + t];
  }
  round_numbers<F>(call.turned, {tile.term, tile.terms, tile.line, tile.lines}, turned, call.out.scales);
}

/// Calls f(numbers, codes, tile, count) for what rows of the run from number `begin` of its matrix, `end` not among
/// them, have in each tile: neighbours.
template <class T, class Function>
void for_each_part(const Fp8RunView& run, std::int64_t begin, std::int64_t end, Function f) {
  const std::int64_t last = run.first + run.in.columns;
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t row_begin = r * run.terms;
    const std::int64_t row_end = min(row_begin + run.terms, last);
    for (std::int64_t i = row_begin < run.first ? run.first : row_begin; i < row_end;) {
      const std::int64_t column = (i - row_begin) / fp8_tile_side;
      const std::int64_t next = min(row_begin + (column + 1) * fp8_tile_side, row_end);
      f(row<T>(run.in, 0) + (i - run.first), run.codes + (i - run.first),
        run.is_whole ? 0 : r / fp8_tile_side * run.row_scales + column, next - i);
      i = next;
    }
  }
}

/// The rows of tiles that the run has elements of: the first, and how many. Each is one thread's.
struct TileRows {
  explicit TileRows(const Fp8RunView& run)
      : first(run.first / run.terms / fp8_tile_side),
        count((run.first + run.in.columns - 1) / run.terms / fp8_tile_side + 1 - first) {}
  std::int64_t first, count;
};

template <class T>
void raise_scales(const Fp8RunView& run) {
  const TileRows rows(run);
  std::uint32_t largest = 0;  // of all tiles
#pragma omp parallel for reduction(max : largest) if (run.in.columns >= min_parallel_elements)
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const std::int64_t begin = (rows.first + i) * fp8_tile_side;
    std::uint32_t of_tiles = 0;
    for_each_part<T>(run, begin, begin + fp8_tile_side,
                     [&](const T* numbers, std::uint8_t*, std::int64_t tile, std::int64_t count) {
                       const std::uint32_t of_part = largest_of(numbers, count);
                       of_tiles = of_part > of_tiles ? of_part : of_tiles;
                       const float scale = scale_of<E4m3>(of_part);
                       if (!run.is_whole && scale > run.scales[tile]) run.scales[tile] = scale;
                     });
    largest = of_tiles > largest ? of_tiles : largest;
  }
  const float scale = scale_of<E4m3>(largest);
  if (run.is_whole && scale > *run.scales) *run.scales = scale;
}

template <class T>
void round_run(const Fp8RunView& run) {
  const TileRows rows(run);
#pragma omp parallel for if (run.in.columns >= min_parallel_elements)
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const std::int64_t begin = (rows.first + i) * fp8_tile_side;
    for_each_part<T>(run, begin, begin + fp8_tile_side,
                     [&](const T* numbers, std::uint8_t* codes, std::int64_t tile, std::int64_t count) {
                       const float factor = 1.0f / run.scales[tile];
#pragma omp simd
                       for (std::int64_t n = 0; n < count; ++n) codes[n] = encode<E4m3>(load(numbers[n]), factor);
                     });
  }
}

void arrange_tile(const Fp8Arrangement& to, const Tile& tile) {
  for (std::int64_t l = 0; l < tile.lines; ++l) {
    std::uint8_t* codes = to.out + (tile.line + l) * to.line_codes + tile.term;
    if (to.transpose) {
      const std::uint8_t* from = to.in + tile.term * to.in_stride + tile.line + l;
      for (std::int64_t t = 0; t < tile.terms; ++t) codes[t] = from[t * to.in_stride];
    } else {
      const std::uint8_t* from = to.in + (tile.line + l) * to.in_stride + tile.term;
#pragma omp simd
      for (std::int64_t t = 0; t < tile.terms; ++t) codes[t] = from[t];
    }
    if (tile.term + tile.terms < to.terms) continue;
    for (std::int64_t t = tile.terms; t < to.line_codes - tile.term; ++t) codes[t] = 0;
  }
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

}  // namespace

void read_fp8(View out, ConstFp8View from, std::int64_t first_line, std::int64_t first_term) {
  using Tiles = ConstFp8View::Tiles;
  with_type(out, [&](auto type) {
    using T = typename decltype(type)::type;
    with_format(from, [&](auto format) {
      using F = decltype(format);
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
      for (std::int64_t r = 0; r < out.rows; ++r) {
        T* to = row<T>(out, r);
        const std::int64_t line = first_line + r;
        const std::uint8_t* codes = from.codes + line * from.line_codes + first_term;
        for (std::int64_t begin = 0; begin < out.columns;) {
          const std::int64_t tile = (first_term + begin) / fp8_tile_side;
          const std::int64_t end = min((tile + 1) * fp8_tile_side - first_term, out.columns);
          const float scale = from.tiles == Tiles::whole ? *from.scales
                              : from.tiles == Tiles::vectors
                                  ? from.scales[tile * from.row_scales + line]
                                  : from.scales[line / fp8_tile_side * from.row_scales + tile];
#pragma omp simd
          for (std::int64_t c = begin; c < end; ++c) store(to[c], number_of<F>(codes[c]) * scale);
          begin = end;
        }
      }
    });
  });
}

template <>
void run(const FindFp8Scale& op, Scratch) {
  const Fp8View to = view_of(op.out);
  const ConstView in = source_of(op);
  with_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
    with_format(to, [&](auto format) { *to.scales = scale_of<decltype(format)>(largest_of_all<T>(in)); });
  });
}

template <>
void run(const RoundToFp8& op, Scratch) {
  const Fp8Rounding call = view_of(op);
  const Fp8View& to = call.out;
  const ConstView& in = call.in;
  const bool has_both = call.turned.codes != nullptr;
  if (has_both && to.tiles == Fp8View::Tiles::whole) *call.turned.scales = *to.scales;
  with_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
    with_format(to, [&](auto format) {
      using F = decltype(format);
      const std::int64_t across = divide_up(to.terms, fp8_tile_side),
                         num_tiles = divide_up(to.lines, fp8_tile_side) * across;
#pragma omp parallel for if (in.rows * in.columns >= min_parallel_elements)
      for (std::int64_t i = 0; i < num_tiles; ++i) {
        const std::int64_t line = i / across * fp8_tile_side, term = i % across * fp8_tile_side;
        round_tile<F, T>(call, {line, min(fp8_tile_side, to.lines - line), term, min(fp8_tile_side, to.terms - term)});
      }
    });
  });
}

template <>
void run(const RaiseFp8Scales& op, Scratch) {
  const Fp8RunView run = view_of(op.run);
  if (run.in.columns == 0) return;
  with_type(run.in, [&](auto type) { raise_scales<typename decltype(type)::type>(run); });
}

template <>
void run(const RoundFp8Run& op, Scratch) {
  const Fp8RunView run = view_of(op.run);
  if (run.in.columns == 0) return;
  with_type(run.in, [&](auto type) { round_run<typename decltype(type)::type>(run); });
}

template <>
void run(const ArrangeFp8& op, Scratch) {
  const Fp8Arrangement arrange = view_of(op);
  const std::int64_t across = divide_up(arrange.terms, fp8_tile_side),
                     num_tiles = divide_up(arrange.lines, fp8_tile_side) * across;
#pragma omp parallel for if (arrange.lines * arrange.terms >= min_parallel_elements)
  for (std::int64_t i = 0; i < num_tiles; ++i) {
    const std::int64_t line = i / across * fp8_tile_side, term = i % across * fp8_tile_side;
    if (arrange.out_scales != nullptr) {
      const std::int64_t row = line / fp8_tile_side, column = term / fp8_tile_side;
      arrange.out_scales[row * arrange.out_row_scales + column] =
          arrange.in_scales[arrange.transpose ? column * arrange.in_row_scales + row
                                              : row * arrange.in_row_scales + column];
    }
    arrange_tile(arrange,
                 {line, min(fp8_tile_side, arrange.lines - line), term, min(fp8_tile_side, arrange.terms - term)});
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
