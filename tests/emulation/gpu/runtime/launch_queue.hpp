// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/block.hpp"

namespace sft::emulation {

/// Queues a kernel. Throws std::runtime_error where CUDA would refuse the launch, as it does once a kernel broke off.
/// `destroy` frees launch.arguments once the kernel has run.
void enqueue_kernel(const KernelLaunch& launch, void (*destroy)(void* arguments), cudaStream_t stream);

}  // namespace sft::emulation
