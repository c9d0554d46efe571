// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "add.hpp"
#include "ops/cuda/launch.cuh"

namespace sft::comm {

namespace {

constexpr int block_size = 256;

/// destination[i] += source[i]. Reads 8 bytes and writes 4 an element, which is its roofline.
template <class Vector>
__global__ void __launch_bounds__(block_size)
    add_kernel(Vector* destination, const Vector* source, std::int64_t num_vectors) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < num_vectors;
       i += stride) {
    const Vector from = source[i];
    Vector to = destination[i];
    if constexpr (sizeof(Vector) == sizeof(float4)) {
      to.x += from.x;
      to.y += from.y;
      to.z += from.z;
      to.w += from.w;
    } else {
      to += from;
    }
    destination[i] = to;
  }
}

template <class Vector>
void add_vectors(float* destination, const float* source, std::int64_t num_vectors, cudaStream_t stream) {
  if (num_vectors == 0) return;
  constexpr std::int64_t max_blocks = 4096;
  const auto num_blocks = static_cast<unsigned>(std::min(max_blocks, (num_vectors + block_size - 1) / block_size));
  cuda::launch("add", add_kernel<Vector>, dim3(num_blocks), dim3(block_size), 0, stream,
               reinterpret_cast<Vector*>(destination), reinterpret_cast<const Vector*>(source), num_vectors);
}

bool is_aligned(const float* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(float4) == 0; }

}  // namespace

void add(float* destination, const float* source, std::int64_t num_elements, cudaStream_t stream) {
  constexpr std::int64_t width = sizeof(float4) / sizeof(float);
  const std::int64_t num_vectors = is_aligned(destination) && is_aligned(source) ? num_elements / width : 0;
  const std::int64_t done = num_vectors * width;
  add_vectors<float4>(destination, source, num_vectors, stream);
  add_vectors<float>(destination + done, source + done, num_elements - done, stream);
}

}  // namespace sft::comm
