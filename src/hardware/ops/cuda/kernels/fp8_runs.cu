// SPDX-License-Identifier: Apache-2.0
// What a rank has of a matrix of 8-bit floats: a run of its elements, row by row, which begins and ends anywhere in
// tiles that have other elements on other ranks. See ops::Fp8Run.
#include "ops/cuda/kernels/run.hpp"

#include <type_traits>

#include "ops/cuda/fp8.cuh"
#include "ops/views/fp8.hpp"

namespace sft::ops::cuda {
namespace {

using namespace fp8;
using sft::cuda::launch;
using sft::cuda::shared_memory;

/// A run, by blocks of 128 x 128 elements of its matrix.
template <class T>
struct Run {
  Fp8RunView to;
  const T* in;
  std::int64_t first_tile_row;  ///< that it has elements of
  std::int64_t column_tiles;    ///< tiles of the matrix side by side
};

/// The element of the run that thread has in row r and part p of its share, and whether it is there.
template <class T, int V>
struct Place {
  __device__ __forceinline__ Place(const Run<T>& run, int r, int p) {
    using Own = Share<V>;
    const int lane = static_cast<int>(threadIdx.x) % Own::lanes, group = static_cast<int>(threadIdx.x) / Own::lanes;
    const std::int64_t tile_row = run.first_tile_row + blockIdx.x / run.column_tiles,
                       row = tile_row * side + group * Own::rows + r,
                       column = blockIdx.x % run.column_tiles * side + lane * V + p * V * Own::lanes;
    at = row * run.to.terms + column - run.to.first;
    is_there = column < run.to.terms && at >= 0 && at < run.to.in.columns;
  }
  std::int64_t at;
  bool is_there;
};

template <class T>
__device__ __forceinline__ float* scale_of_block(const Run<T>& run) {
  if (run.to.is_whole) return run.to.scales;
  return run.to.scales + (run.first_tile_row + blockIdx.x / run.column_tiles) * run.to.row_scales +
         blockIdx.x % run.column_tiles;
}

/// Rows of a thread's share that it loads before it uses the first.
constexpr int rows_ahead = 4;

/// Calls f(numbers, Place) for all vectors of the thread's share.
template <class T, int V, class Function>
__device__ __forceinline__ void for_each_vector(const Run<T>& run, const Function& f) {
#pragma unroll 1
  for (int first = 0; first < Share<V>::rows; first += rows_ahead) {
    float x[rows_ahead][Share<V>::parts][V] = {};
#pragma unroll
    for (int r = 0; r < rows_ahead; ++r) {
#pragma unroll
      for (int p = 0; p < Share<V>::parts; ++p) {
        const Place<T, V> place(run, first + r, p);
        if (place.is_there) load(x[r][p], run.in + place.at);
      }
    }
#pragma unroll
    for (int r = 0; r < rows_ahead; ++r) {
#pragma unroll
      for (int p = 0; p < Share<V>::parts; ++p) f(x[r][p], Place<T, V>(run, first + r, p));
    }
  }
}

/// Scales are raised to those of the elements: as bits, the larger scale is the larger number. Moves in.
template <class T, int V>
__global__ void __launch_bounds__(threads) raise_kernel(Run<T> run) {
  unsigned largest = 0;
  for_each_vector<T, V>(run, [&](const float(&x)[V], const Place<T, V>&) {
#pragma unroll
    for (int v = 0; v < V; ++v) largest = max(largest, magnitude_bits(x[v]));
  });
  largest = block_max(largest, shared_memory<unsigned>());
  if (threadIdx.x != 0) return;
  const float scale = scale_of(largest, Format::of(/*is_e5m2=*/false).max_exponent);
  atomicMax(reinterpret_cast<unsigned*>(scale_of_block(run)), __float_as_uint(scale));
}

/// Moves in and its codes.
template <class T, int V>
__global__ void __launch_bounds__(threads) round_run_kernel(Run<T> run) {
  const float factor = __frcp_rn(*scale_of_block(run));
  for_each_vector<T, V>(run, [&](const float(&x)[V], const Place<T, V>& place) {
    if (!place.is_there) return;
    std::uint8_t* const at = run.to.codes + place.at;
    if constexpr (V == 1) {
      *at = static_cast<std::uint8_t>(encode_pair(x[0], 0.0f, factor, /*is_e5m2=*/false) & 0xffu);
    } else {
      unsigned words[V / 4];
#pragma unroll
      for (int w = 0; w < V / 4; ++w) {
        const float four[4] = {x[4 * w], x[4 * w + 1], x[4 * w + 2], x[4 * w + 3]};
        words[w] = encode_four(four, factor, /*is_e5m2=*/false);
      }
      if constexpr (V == 8) {
        ptx::store_vector(reinterpret_cast<uint2*>(at), make_uint2(words[0], words[1]));
      } else {
        *reinterpret_cast<unsigned*>(at) = words[0];
      }
    }
  });
}

/// Whether rows of the run begin and end with whole vectors of n elements, and of their codes.
bool has_vectors(const Fp8RunView& run, int n) {
  return sft::ops::cuda::has_vectors(run.in, n) && run.terms % n == 0 && run.first % n == 0 &&
         reinterpret_cast<std::uintptr_t>(run.codes) % static_cast<std::uintptr_t>(n) == 0;
}

/// Calls launch_kernel(Type<T>, the length of vectors as an integral_constant, the run, number of blocks).
template <class Launch>
void by_blocks(const Fp8RunView& run, const Launch& launch_kernel) {
  if (run.in.columns == 0) return;
  with_type(run.in.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t first = run.first / run.terms / side,
                       end = (run.first + run.in.columns - 1) / run.terms / side + 1;
    const Run<T> all{run, static_cast<const T*>(run.in.data), first, (run.terms + side - 1) / side};
    const auto num_blocks = static_cast<unsigned>((end - first) * all.column_tiles);
    constexpr int most = vector_size<T>;
    if (has_vectors(run, most)) {
      launch_kernel(type, std::integral_constant<int, most>(), all, num_blocks);
    } else {
      launch_kernel(type, std::integral_constant<int, 1>(), all, num_blocks);
    }
  });
}

}  // namespace

template <>
void run(const ops::RaiseFp8Scales& op, const Context& context) {
  const Fp8RunView run = view_of(op.run);
  const cudaStream_t stream = context.stream;
  by_blocks(run, [&](auto type, auto length, const auto& all, unsigned num_blocks) {
    launch("raise_fp8_scales", raise_kernel<typename decltype(type)::type, decltype(length)::value>, dim3(num_blocks),
           dim3(threads), threads / warp_size * sizeof(unsigned), stream, all);
  });
}

template <>
void run(const ops::RoundFp8Run& op, const Context& context) {
  const Fp8RunView run = view_of(op.run);
  const cudaStream_t stream = context.stream;
  by_blocks(run, [&](auto type, auto length, const auto& all, unsigned num_blocks) {
    launch("round_fp8_run", round_run_kernel<typename decltype(type)::type, decltype(length)::value>, dim3(num_blocks),
           dim3(threads), 0, stream, all);
  });
}

}  // namespace sft::ops::cuda
