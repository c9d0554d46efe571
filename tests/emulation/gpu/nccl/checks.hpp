// SPDX-License-Identifier: Apache-2.0
#pragma once
// What NCCL refuses, or would do wrong without a word. Each check says what is wrong, or nothing when all is well.

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "communicator.hpp"
#include "launch.hpp"

namespace sft::emulation {

/// Arguments of one call: types, sizes, roots and peers; the stream's device; buffers in memory that the device
/// reaches, whole, aligned to their elements, and apart from each other or in place as NCCL wants it.
[[nodiscard]] std::string why_refused(const Communicator& communicator, cudaStream_t stream,
                                      const Collective& collective);
[[nodiscard]] std::string why_refused(const Communicator& communicator, cudaStream_t stream, const Transfer& transfer);

/// Buffers of the calls of a group, which run at the same time: none may be written that another call touches.
[[nodiscard]] std::string why_overlapping(const Communicator& communicator, const std::vector<Collective>& collectives,
                                          const std::vector<Transfer>& transfers);

}  // namespace sft::emulation
