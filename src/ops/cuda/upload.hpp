// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small tables from host to device memory within a step. Plain C++17, for host code and for nvcc.

#include <cuda_runtime.h>

#include <cstddef>

namespace sft::ops::cuda {

/// Queues `stream` to write `bytes` bytes, a multiple of 16, to `destination` in device memory, aligned to 16. `source`
/// is ordinary host memory and is read before the call returns; nothing waits. For tables of kilobytes: the bytes
/// travel as the arguments of kernels, 3840 each, so that neither pinned memory nor a copy that waits for it is needed.
void upload(void* destination, const void* source, std::size_t bytes, cudaStream_t stream);

}  // namespace sft::ops::cuda
