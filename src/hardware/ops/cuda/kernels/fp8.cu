// SPDX-License-Identifier: Apache-2.0
// Matrices of 8-bit floats; see sft/ops/fp8.hpp.
#include "ops/cuda/kernels/run.hpp"

#include <type_traits>

#include "ops/cuda/fp8.cuh"
#include "ops/views/fp8.hpp"
#include "sft/ops/calls/elementary.hpp"

namespace sft::ops::cuda {
namespace {

using namespace fp8;
using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr int find_unroll = 8;

/// *scale, which begins with the least, becomes the largest of the scales of all blocks: as bits, the larger scale is
/// the larger number. Moves in.
template <class T, int N>
__global__ void __launch_bounds__(threads)
    find_kernel(unsigned* scale, Rows<const T> in, Cover cover, int max_exponent) {
  const std::int64_t block_row = blockIdx.x / cover.num_column_blocks;
  const unsigned block_column = blockIdx.x % cover.num_column_blocks;
  const std::int64_t vector = static_cast<std::int64_t>(block_column) * blockDim.x + threadIdx.x;
  const std::int64_t first_row = block_row * blockDim.y * find_unroll + threadIdx.y;
  float x[find_unroll][N] = {};
#pragma unroll
  for (int i = 0; i < find_unroll; ++i) {
    const std::int64_t row = first_row + i * static_cast<std::int64_t>(blockDim.y);
    if (vector < cover.per_row && row * cover.per_row + vector < cover.num_vectors) load(x[i], in.at(row, vector * N));
  }
  unsigned largest = 0;
#pragma unroll
  for (int i = 0; i < find_unroll; ++i) {
#pragma unroll
    for (int n = 0; n < N; ++n) largest = max(largest, magnitude_bits(x[i][n]));
  }
  largest = block_max(largest, shared_memory<unsigned>());
  if (threadIdx.x == 0 && threadIdx.y == 0) atomicMax(scale, __float_as_uint(scale_of(largest, max_exponent)));
}

// Shared memory: numbers of columns, for each group of threads, or codes. Between 32 columns, and behind the groups,
// lies what puts lanes of a warp into banks of their own.

__device__ __forceinline__ int place_of(int column) { return column + column / 32; }
constexpr int group_stride = side + 4;
/// Where 8 codes of a line lie, in units of 8 bytes. Lanes that write beside each other, V lines apart, and those that
/// read one line, find each a place of its own.
template <int V>
__device__ __forceinline__ int place_of(int line, int unit) {
  constexpr int units = side / 8;
  return line * units + (unit ^ line / V % units);
}

constexpr std::size_t code_bytes = std::size_t{side} * side;
template <int V>
constexpr std::size_t column_bytes = (Share<V>::groups + 1) * group_stride * sizeof(unsigned);

/// What is rounded, and the matrices that it becomes: with a line for each row of in, or for each column.
template <class T>
struct Rounding {
  Fp8View to, crossed;
  const float* scale;    ///< of a whole matrix
  float* copy_of_scale;  ///< where both are made, also that of the other one
  Rows<const T> in;
  std::int64_t rows, columns;  ///< of in
  std::int64_t column_tiles;   ///< tiles of in side by side
};

/// Which of the matrices of a Rounding are made.
enum class Made { lines_of_rows, lines_of_columns, both };

/// A block rounds 128 x 128 numbers; kTilesNumber is that of Tiles, kMadeNumber that of Made. Moves in, its codes, once
/// or twice, and, of tiles, the scales.
template <class T, int V, int kMadeNumber, int kTilesNumber>
__global__ void __launch_bounds__(threads) round_kernel(Rounding<T> round) {
  constexpr auto kTiles = static_cast<Tiles>(kTilesNumber);
  using Own = Share<V>;
  constexpr bool kStraight = kMadeNumber != static_cast<int>(Made::lines_of_columns),
                 kCrossed = kMadeNumber != static_cast<int>(Made::lines_of_rows);
  static_assert(kTiles != Tiles::blocks || kStraight != kCrossed);
  const Fp8View &to = round.to, &crossed = round.crossed;
  const bool is_e5m2 = kStraight ? to.is_e5m2 : crossed.is_e5m2;
  const int max_exponent = Format::of(is_e5m2).max_exponent;
  const std::int64_t tile_row = blockIdx.x / round.column_tiles, tile_column = blockIdx.x % round.column_tiles;
  const int lane = static_cast<int>(threadIdx.x) % Own::lanes, group = static_cast<int>(threadIdx.x) / Own::lanes;
  const int own_row = group * Own::rows, own_column = lane * V;
  const std::int64_t first_row = tile_row * side + own_row, first_column = tile_column * side + own_column;
  constexpr int part_columns = V * Own::lanes;

  float x[Own::rows][Own::parts][V] = {};
#pragma unroll
  for (int r = 0; r < Own::rows; ++r) {
#pragma unroll
    for (int p = 0; p < Own::parts; ++p) {
      const std::int64_t row = first_row + r, column = first_column + p * part_columns;
      if (row < round.rows && column < round.columns) load(x[r][p], round.in.at(row, column));
    }
  }

  // The factors of rows, or of columns, or of all.
  constexpr bool is_by_row = kTiles == Tiles::vectors && kStraight, is_by_column = kTiles == Tiles::vectors && kCrossed;
  float row_factors[is_by_row ? Own::rows : 1], column_factors[is_by_column ? Own::parts : 1][is_by_column ? V : 1];
  float factor = 0.0f;
  if constexpr (kTiles == Tiles::whole) {
    factor = __frcp_rn(*round.scale);
    if (kStraight && kCrossed && blockIdx.x == 0 && threadIdx.x == 0) *round.copy_of_scale = *round.scale;
  } else if constexpr (kTiles == Tiles::blocks) {
    unsigned largest = 0;
#pragma unroll
    for (int r = 0; r < Own::rows; ++r) {
#pragma unroll
      for (int p = 0; p < Own::parts; ++p) {
#pragma unroll
        for (int v = 0; v < V; ++v) largest = max(largest, magnitude_bits(x[r][p][v]));
      }
    }
    const float scale = scale_of(block_max(largest, shared_memory<unsigned>()), max_exponent);
    factor = __frcp_rn(scale);
    if (threadIdx.x == 0) {
      (kCrossed ? crossed.scales + tile_column * crossed.row_scales + tile_row
                : to.scales + tile_row * to.row_scales + tile_column)[0] = scale;
    }
    if constexpr (kCrossed) {
      __syncthreads();  // the codes come to the same memory
    }
  }
  if constexpr (is_by_row) {
    float own_scale = 0.0f;  // of the row with the number of the lane
#pragma unroll
    for (int r = 0; r < Own::rows; ++r) {
      unsigned largest = 0;
#pragma unroll
      for (int p = 0; p < Own::parts; ++p) {
#pragma unroll
        for (int v = 0; v < V; ++v) largest = max(largest, magnitude_bits(x[r][p][v]));
      }
#pragma unroll
      for (int distance = Own::lanes / 2; distance > 0; distance /= 2) {
        largest = max(largest, __shfl_xor_sync(all_lanes, largest, distance));
      }
      const float scale = scale_of(largest, max_exponent);
      row_factors[r] = __frcp_rn(scale);
      if (lane == r) own_scale = scale;
    }
    if (lane < Own::rows && first_row + lane < to.lines) {
      to.scales[tile_column * to.row_scales + first_row + lane] = own_scale;
    }
  }
  if constexpr (is_by_column) {
    auto* const of_groups = shared_memory<unsigned>();  // (groups, group_stride), and behind it the scales of columns
    auto* const scales = reinterpret_cast<float*>(of_groups + Own::groups * group_stride);
#pragma unroll
    for (int p = 0; p < Own::parts; ++p) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        unsigned largest = 0;
#pragma unroll
        for (int r = 0; r < Own::rows; ++r) largest = max(largest, magnitude_bits(x[r][p][v]));
        of_groups[group * group_stride + place_of(own_column + p * part_columns + v)] = largest;
      }
    }
    __syncthreads();
    if (threadIdx.x < side) {
      const int column = static_cast<int>(threadIdx.x);
      unsigned largest = 0;
      for (int g = 0; g < Own::groups; ++g) largest = max(largest, of_groups[g * group_stride + place_of(column)]);
      const float scale = scale_of(largest, max_exponent);
      scales[place_of(column)] = scale;
      const std::int64_t line = tile_column * side + column;
      if (line < crossed.lines) crossed.scales[tile_row * crossed.row_scales + line] = scale;
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < Own::parts; ++p) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        column_factors[p][v] = __frcp_rn(scales[place_of(own_column + p * part_columns + v)]);
      }
    }
    __syncthreads();  // the codes come to the same memory
  }

  if constexpr (kStraight) {
#pragma unroll
    for (int r = 0; r < Own::rows; ++r) {
      if constexpr (is_by_row) factor = row_factors[r];
#pragma unroll
      for (int p = 0; p < Own::parts; ++p) {
        const std::int64_t row = first_row + r, column = first_column + p * part_columns;
        if (row >= to.lines || column >= to.line_codes) continue;
        std::uint8_t* const at = to.codes + row * to.line_codes + column;
        const bool is_there = column < to.terms;  // what is not was loaded as 0; said again, it saves registers
        if constexpr (V == 1) {
          *at = static_cast<std::uint8_t>(is_there ? encode_pair(x[r][p][0], 0.0f, factor, is_e5m2) & 0xffu : 0u);
        } else {
          unsigned words[V / 4];
#pragma unroll
          for (int w = 0; w < V / 4; ++w) {
            const float four[4] = {x[r][p][4 * w], x[r][p][4 * w + 1], x[r][p][4 * w + 2], x[r][p][4 * w + 3]};
            words[w] = is_there ? encode_four(four, factor, is_e5m2) : 0u;
          }
          if constexpr (V == 8) {
            ptx::store_vector(reinterpret_cast<uint2*>(at), make_uint2(words[0], words[1]));
          } else {
            *reinterpret_cast<unsigned*>(at) = words[0];
          }
        }
      }
    }
  }
  if constexpr (kCrossed) {
    auto* const codes = shared_memory<uint2>();  // (128 lines, 16 times 8 codes)
#pragma unroll
    for (int p = 0; p < Own::parts; ++p) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if constexpr (is_by_column) factor = column_factors[p][v];
        const int line = own_column + p * part_columns + v;
#pragma unroll
        for (int u = 0; u < Own::rows / 8; ++u) {
          unsigned words[2];
#pragma unroll
          for (int w = 0; w < 2; ++w) {
            const int r = 8 * u + 4 * w;
            const float four[4] = {x[r][p][v], x[r + 1][p][v], x[r + 2][p][v], x[r + 3][p][v]};
            words[w] = encode_four(four, factor, is_e5m2);
            const std::int64_t missing = first_row + r + 4 - crossed.terms;  // as is_there
            if (missing > 0) words[w] = missing >= 4 ? 0u : words[w] & 0xffffffffu >> 8 * missing;
          }
          codes[place_of<V>(line, own_row / 8 + u)] = make_uint2(words[0], words[1]);
        }
      }
    }
    __syncthreads();
    constexpr int units = side / 8;
    const int unit = static_cast<int>(threadIdx.x) % units;
    const std::int64_t term = tile_row * side + 8 * unit;
#pragma unroll
    for (int i = 0; i < units / 2; ++i) {
      const int own_line = static_cast<int>(threadIdx.x) / units + i * static_cast<int>(threads) / units;
      const std::int64_t line = tile_column * side + own_line;
      if (line >= crossed.lines || term >= crossed.line_codes) continue;
      ptx::store_vector(reinterpret_cast<uint2*>(crossed.codes + line * crossed.line_codes + term),
                        codes[place_of<V>(own_line, unit)]);
    }
  }
}

template <class T, int V, Made kMade, Tiles kTiles>
void launch_round(const Rounding<T>& round, std::int64_t num_tiles, cudaStream_t stream) {
  constexpr bool is_crossed = kMade != Made::lines_of_rows, is_by_column = kTiles == Tiles::vectors && is_crossed;
  constexpr std::size_t of_columns = is_by_column ? column_bytes<V> : threads / warp_size * sizeof(unsigned);
  constexpr std::size_t shared_bytes = is_crossed && code_bytes > of_columns ? code_bytes : of_columns;
  launch("round_to_fp8", round_kernel<T, V, static_cast<int>(kMade), static_cast<int>(kTiles)>,
         dim3(static_cast<unsigned>(num_tiles)), dim3(threads), shared_bytes, stream, round);
}

template <class T, int V, Made kMade>
void launch_round(const Rounding<T>& round, Tiles tiles, std::int64_t num_tiles, cudaStream_t stream) {
  switch (tiles) {
    case Tiles::whole:
      return launch_round<T, V, kMade, Tiles::whole>(round, num_tiles, stream);
    case Tiles::vectors:
      return launch_round<T, V, kMade, Tiles::vectors>(round, num_tiles, stream);
    case Tiles::blocks:
      if constexpr (kMade != Made::both) launch_round<T, V, kMade, Tiles::blocks>(round, num_tiles, stream);
      return;
  }
}

template <class T, int V>
void launch_round(const Rounding<T>& round, Made made, Tiles tiles, std::int64_t num_tiles, cudaStream_t stream) {
  switch (made) {
    case Made::lines_of_rows:
      return launch_round<T, V, Made::lines_of_rows>(round, tiles, num_tiles, stream);
    case Made::lines_of_columns:
      return launch_round<T, V, Made::lines_of_columns>(round, tiles, num_tiles, stream);
    case Made::both:
      return launch_round<T, V, Made::both>(round, tiles, num_tiles, stream);
  }
}

constexpr int neighbours = 8;  ///< codes that a thread reads, and writes, at a time

/// Codes that lie row by row, and where they go to.
struct Arranging {
  Fp8Arrangement to;
  std::int64_t rows, columns;  ///< of in
  std::int64_t column_tiles;   ///< tiles of in side by side
};

/// `count` codes, and zeros up to 8.
template <bool kVectors>
__device__ __forceinline__ uint2 load_codes(const std::uint8_t* from, std::int64_t count) {
  if (count <= 0) return make_uint2(0u, 0u);
  if constexpr (kVectors) return *reinterpret_cast<const uint2*>(from);
  unsigned words[2] = {};
#pragma unroll
  for (int i = 0; i < neighbours; ++i) {
    if (i < count) words[i / 4] |= static_cast<unsigned>(from[i]) << 8 * (i % 4);
  }
  return make_uint2(words[0], words[1]);
}

/// A block arranges 128 x 128 codes, a thread 8 x 8 of them; kVectors: lines of in are made of whole vectors. Moves in
/// and out.
template <bool kTranspose, bool kVectors>
__global__ void __launch_bounds__(threads) arrange_kernel(Arranging arrange) {
  constexpr int units = side / neighbours;
  const Fp8Arrangement& to = arrange.to;
  const std::int64_t tile_row = blockIdx.x / arrange.column_tiles, tile_column = blockIdx.x % arrange.column_tiles;
  if (to.out_scales != nullptr && threadIdx.x == 0) {
    const std::int64_t row = kTranspose ? tile_column : tile_row, column = kTranspose ? tile_row : tile_column;
    to.out_scales[row * to.out_row_scales + column] = to.in_scales[tile_row * to.in_row_scales + tile_column];
  }
  const int lane = static_cast<int>(threadIdx.x) % units, group = static_cast<int>(threadIdx.x) / units;
  const std::int64_t first_row = tile_row * side + group * neighbours, column = tile_column * side + lane * neighbours;
  uint2 x[neighbours];
#pragma unroll
  for (int r = 0; r < neighbours; ++r) {
    const std::int64_t row = first_row + r;
    x[r] = load_codes<kVectors>(to.in + row * to.in_stride + column, row < arrange.rows ? arrange.columns - column : 0);
  }
  if constexpr (!kTranspose) {
    if (column >= to.line_codes) return;
#pragma unroll
    for (int r = 0; r < neighbours; ++r) {
      const std::int64_t line = first_row + r;
      if (line < to.lines) ptx::store_vector(reinterpret_cast<uint2*>(to.out + line * to.line_codes + column), x[r]);
    }
  } else {
    auto* const codes = shared_memory<uint2>();  // (128 lines, 16 times 8 codes)
#pragma unroll
    for (int v = 0; v < neighbours; ++v) {
      unsigned words[2] = {};
#pragma unroll
      for (int r = 0; r < neighbours; ++r) {
        words[r / 4] |= ((v < 4 ? x[r].x : x[r].y) >> 8 * (v % 4) & 0xffu) << 8 * (r % 4);
      }
      codes[place_of<neighbours>(lane * neighbours + v, group)] = make_uint2(words[0], words[1]);
    }
    __syncthreads();
    const std::int64_t term = tile_row * side + neighbours * lane;
#pragma unroll
    for (int i = 0; i < neighbours; ++i) {
      const int own_line = group + i * units;
      const std::int64_t line = tile_column * side + own_line;
      if (line >= to.lines || term >= to.line_codes) continue;
      ptx::store_vector(reinterpret_cast<uint2*>(to.out + line * to.line_codes + term),
                        codes[place_of<neighbours>(own_line, lane)]);
    }
  }
}

template <bool kTranspose, bool kVectors>
void launch_arrange(const Arranging& arrange, cudaStream_t stream) {
  const std::int64_t row_tiles = (arrange.rows + side - 1) / side;
  launch("arrange_fp8", arrange_kernel<kTranspose, kVectors>,
         dim3(static_cast<unsigned>(row_tiles * arrange.column_tiles)), dim3(threads), kTranspose ? code_bytes : 0,
         stream, arrange);
}

template <bool kTranspose>
void launch_arrange(const Arranging& arrange, cudaStream_t stream) {
  const bool has_vectors = reinterpret_cast<std::uintptr_t>(arrange.to.in) % neighbours == 0 &&
                           arrange.columns % neighbours == 0 && arrange.to.in_stride % neighbours == 0;
  if (has_vectors) {
    launch_arrange<kTranspose, true>(arrange, stream);
  } else {
    launch_arrange<kTranspose, false>(arrange, stream);
  }
}

}  // namespace

template <>
void run(const ops::FindFp8Scale& op, const Context& context) {
  ensure(op.out.tiles == Fp8Tiles::whole, "ops: a matrix with one scale");
  const Fp8View to = view_of(op.out);
  const ConstView in = source_of(op);
  const cudaStream_t stream = context.stream;
  cuda::run(ops::Fill{op.out.scales, least_scale}, context);
  with_type(in.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto run = [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const ConstView& part) {
      const unsigned threads_x = threads_of_row(per_row), threads_y = threads / threads_x;
      const std::int64_t num_rows = (num_vectors + per_row - 1) / per_row,
                         rows_per_block = static_cast<std::int64_t>(threads_y) * find_unroll;
      const std::int64_t num_column_blocks = (per_row + threads_x - 1) / threads_x;
      const std::int64_t num_blocks = (num_rows + rows_per_block - 1) / rows_per_block * num_column_blocks;
      launch("find_fp8_scale", find_kernel<T, decltype(n)::value>, dim3(static_cast<unsigned>(num_blocks)),
             dim3(threads_x, threads_y), threads / warp_size * sizeof(unsigned), stream,
             reinterpret_cast<unsigned*>(to.scales), rows_of<const T>(part),
             Cover{num_vectors, per_row, static_cast<unsigned>(num_column_blocks)}, to.is_e5m2 ? 15 : 8);
    };
    const bool is_one = in.rows <= 1 || in.stride == in.columns;
    const ConstView matrix =
        is_one ? ConstView{in.data, in.is_bf16, 1, in.rows * in.columns, in.rows * in.columns} : in;
    by_vectors<vector_size<T>>(std::tuple(matrix), true, run);
  });
}

template <>
void run(const ops::RoundToFp8& op, const Context& context) {
  const Fp8Rounding call = view_of(op);
  const cudaStream_t stream = context.stream;
  const Fp8View &to = call.out, &turned = call.turned;
  const ConstView& in = call.in;
  const bool transpose = call.transpose;
  if (is_empty(in)) return;
  const bool is_both = turned.codes != nullptr;
  const Made made = is_both ? Made::both : transpose ? Made::lines_of_columns : Made::lines_of_rows;
  with_type(in.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t column_tiles = (in.columns + side - 1) / side, row_tiles = (in.rows + side - 1) / side;
    const Rounding<T> round{transpose ? turned : to,
                            transpose ? to : turned,
                            to.scales,
                            turned.scales,
                            rows_of<const T>(in),
                            in.rows,
                            in.columns,
                            column_tiles};
    if (has_vectors(in, vector_size<T>)) {
      launch_round<T, vector_size<T>>(round, made, to.tiles, row_tiles * column_tiles, stream);
    } else {
      launch_round<T, 1>(round, made, to.tiles, row_tiles * column_tiles, stream);
    }
  });
}

template <>
void run(const ops::ArrangeFp8& op, const Context& context) {
  const Fp8Arrangement arrange = view_of(op);
  const cudaStream_t stream = context.stream;
  if (arrange.lines == 0 || arrange.terms == 0) return;
  const std::int64_t rows = arrange.transpose ? arrange.terms : arrange.lines,
                     columns = arrange.transpose ? arrange.lines : arrange.terms;
  const Arranging all{arrange, rows, columns, (columns + side - 1) / side};
  if (arrange.transpose) {
    launch_arrange<true>(all, stream);
  } else {
    launch_arrange<false>(all, stream);
  }
}

}  // namespace sft::ops::cuda
