// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/kernels/kernels.hpp"

#include <utility>

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/warp.cuh"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned sort_threads = 256, num_warps = sort_threads / warp_size;
static_assert(sort_threads == sort_digits, "a thread for each digit");
constexpr int warp_elements = static_cast<int>(sort_tile / num_warps);  ///< neighbours that a warp takes in turn

/// Moves 12 bytes a token.
struct MakePairs {
  static constexpr int unroll = 1;
  struct Registers {};
  Pairs pairs;
  const std::int32_t* tokens;
  std::int64_t vocab_begin, num_ids;

  __device__ __forceinline__ void load(Registers&, std::int64_t, std::int64_t) const {}
  __device__ __forceinline__ void store(const Registers&, std::int64_t row, std::int64_t column) const {
    const std::int64_t position = row * static_cast<std::int64_t>(sort_tile) + column,
                       id = tokens[position] - vocab_begin;
    pairs.keys[position] = static_cast<std::uint32_t>(id >= 0 && id < num_ids ? id : num_ids);
    pairs.values[position] = static_cast<std::uint32_t>(position);
  }
};

__device__ __forceinline__ unsigned digit_of(std::uint32_t key, int shift) {
  return key >> shift & static_cast<unsigned>(sort_digits - 1);
}

/// Row b of counts: how often each digit occurs in tile b. Moves 4 bytes a key, and 1 KiB a tile.
__global__ void __launch_bounds__(sort_threads)
    count_kernel(std::uint32_t* counts, const std::uint32_t* keys, std::int64_t size, int shift) {
  auto* count = shared_memory<unsigned>();
  count[threadIdx.x] = 0;
  __syncthreads();
  const std::int64_t begin = blockIdx.x * sort_tile, end = begin + sort_tile < size ? begin + sort_tile : size;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += sort_threads)
    atomicAdd(&count[digit_of(keys[i], shift)], 1u);
  __syncthreads();
  counts[blockIdx.x * sort_digits + threadIdx.x] = count[threadIdx.x];
}

/// One block: counts become the place of the first key of each digit of each tile. Moves 2 KiB a tile.
__global__ void __launch_bounds__(sort_threads) place_kernel(std::uint32_t* counts, std::int64_t num_tiles) {
  auto* totals = shared_memory<unsigned>();
  unsigned total = 0;
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) total += counts[tile * sort_digits + threadIdx.x];
  totals[threadIdx.x] = total;
  __syncthreads();
  unsigned place = 0;
  for (unsigned digit = 0; digit < threadIdx.x; ++digit) place += totals[digit];
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const unsigned count = counts[tile * sort_digits + threadIdx.x];
    counts[tile * sort_digits + threadIdx.x] = place;
    place += count;
  }
}

/// Moves every pair of tile b to its place. A warp has neighbours and takes them in their order, so that equal digits
/// keep it. Moves 16 bytes a pair, and 1 KiB a tile.
__global__ void __launch_bounds__(sort_threads)
    scatter_kernel(Pairs to, Pairs from, const std::uint32_t* places, std::int64_t size, int shift) {
  auto* next = shared_memory<unsigned>();  // (num_warps, sort_digits): of the warp's next key of each digit
  const unsigned warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  unsigned* mine = next + warp * static_cast<unsigned>(sort_digits);
  for (unsigned digit = lane; digit < sort_digits; digit += warp_size) mine[digit] = 0;
  __syncwarp();
  const std::int64_t begin = blockIdx.x * sort_tile + warp * static_cast<std::int64_t>(warp_elements);
  for (int i = static_cast<int>(lane); i < warp_elements; i += static_cast<int>(warp_size)) {
    if (begin + i < size) atomicAdd(&mine[digit_of(from.keys[begin + i], shift)], 1u);
  }
  __syncthreads();
  unsigned place = places[blockIdx.x * sort_digits + threadIdx.x];
  for (unsigned w = 0; w < num_warps; ++w) {
    unsigned& entry = next[w * static_cast<unsigned>(sort_digits) + threadIdx.x];
    const unsigned count = entry;
    entry = place;
    place += count;
  }
  __syncthreads();
  for (int first = 0; first < warp_elements; first += static_cast<int>(warp_size)) {
    const std::int64_t i = begin + first + lane;
    const bool is_pair = i < size;
    const std::uint32_t key = is_pair ? from.keys[i] : 0;
    const unsigned digit = digit_of(key, shift);
    unsigned equals = __ballot_sync(all_lanes, is_pair);  // lanes with a pair of the same digit
#pragma unroll
    for (unsigned bit = 0; bit < 8; ++bit) {
      const bool is_set = (digit >> bit & 1u) != 0;
      const unsigned set = __ballot_sync(all_lanes, is_set);
      equals &= is_set ? set : ~set;
    }
    const int rank = __popc(equals & ((1u << lane) - 1u));
    const unsigned at = is_pair ? mine[digit] + static_cast<unsigned>(rank) : 0;
    __syncwarp();
    if (is_pair) {
      to.keys[at] = key;
      to.values[at] = from.values[i];
      if (rank == 0) mine[digit] += static_cast<unsigned>(__popc(equals));
    }
    __syncwarp();
  }
}

}  // namespace

Pairs sort_tokens(const std::int32_t* tokens, std::int64_t num_tokens, std::int64_t vocab_begin, std::int64_t num_ids,
                  Pairs pairs, Pairs other, std::uint32_t* counts, cudaStream_t stream) {
  run_elementwise<1>("make_pairs", MakePairs{pairs, tokens, vocab_begin, num_ids}, num_tokens, sort_tile, stream);
  const std::int64_t num_tiles = (num_tokens + sort_tile - 1) / sort_tile;
  const dim3 tiles(static_cast<unsigned>(num_tiles)), threads(sort_threads);
  constexpr std::size_t row_bytes = sort_digits * sizeof(unsigned);
  for (int shift = 0; num_ids >> shift > 0; shift += 8) {
    launch("sort_count", count_kernel, tiles, threads, row_bytes, stream, counts, pairs.keys, num_tokens, shift);
    launch("sort_place", place_kernel, dim3(1), threads, row_bytes, stream, counts, num_tiles);
    launch("sort_scatter", scatter_kernel, tiles, threads, num_warps * row_bytes, stream, other, pairs, counts,
           num_tokens, shift);
    std::swap(pairs, other);
  }
  return pairs;
}

}  // namespace sft::ops::cuda
