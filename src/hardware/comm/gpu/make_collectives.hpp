// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives over the memory of GPUs.

#include <memory>
#include <vector>

#include "sft/comm/collectives.hpp"

namespace sft::comm {

/// By NCCL or a CUDA-aware MPI, as `transport` says: see make_collectives. Collective over all ranks. Throws a
/// configuration Error in programs that run on no GPU (absent.cpp).
[[nodiscard]] std::unique_ptr<Collectives> make_gpu_collectives(device::Device& device,
                                                                const std::vector<TensorGroup>& groups,
                                                                const Transport& transport);

}  // namespace sft::comm
