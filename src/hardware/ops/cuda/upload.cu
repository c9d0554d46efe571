// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/kernels/kernels.hpp"

#include <algorithm>
#include <cstring>

#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

constexpr int chunk_words = 240;  // of 16 bytes; arguments of a kernel have 4 KiB

struct Chunk {
  uint4 words[chunk_words];
};

/// destination[i] = chunk[i] for i < num_words: one thread a word. Writes 16 bytes a word.
__global__ __launch_bounds__(chunk_words) void upload_kernel(uint4* destination, Chunk chunk, int num_words) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < num_words) destination[i] = chunk.words[i];
}

}  // namespace

void upload(void* destination, const void* source, std::size_t bytes, cudaStream_t stream) {
  for (std::size_t begin = 0; begin < bytes; begin += sizeof(Chunk)) {
    const std::size_t size = std::min(sizeof(Chunk), bytes - begin);
    Chunk chunk{};
    std::memcpy(chunk.words, static_cast<const char*>(source) + begin, size);
    sft::cuda::launch("upload", upload_kernel, dim3(1), dim3(chunk_words), 0, stream,
                      reinterpret_cast<uint4*>(static_cast<char*>(destination) + begin), chunk,
                      static_cast<int>(size / sizeof(uint4)));
  }
}

}  // namespace sft::ops::cuda
