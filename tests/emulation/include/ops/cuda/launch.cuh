// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in for src/hardware/ops/cuda/launch.cuh where kernels are compiled for the host: the same two functions.

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "emulated_gpu/launch.cuh"
#include "sft/core/gpu_launches.hpp"

namespace sft::cuda {

using emulation::shared_memory;

template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, A&&... arguments) {
  note_launch(name, stream);
  const cudaError_t code = cudaPeekAtLastError();
  throw_if_of_a_kernel(code, cudaGetErrorString(code));
  emulation::launch(name, kernel, grid, block, shared_bytes, stream, std::forward<A>(arguments)...);
}

}  // namespace sft::cuda
