// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "add.hpp"

namespace sft::comm {

namespace {

__global__ void add_kernel(float* destination, const float* source, std::int64_t num_elements) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < num_elements;
       i += stride) {
    destination[i] += source[i];
  }
}

}  // namespace

void add(float* destination, const float* source, std::int64_t num_elements, cudaStream_t stream) {
  if (num_elements == 0) return;
  constexpr std::int64_t block_size = 256, max_blocks = 4096;
  const auto num_blocks = static_cast<unsigned>(std::min(max_blocks, (num_elements + block_size - 1) / block_size));
  add_kernel<<<num_blocks, block_size, 0, stream>>>(destination, source, num_elements);
}

}  // namespace sft::comm
