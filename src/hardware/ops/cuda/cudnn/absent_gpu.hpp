// SPDX-License-Identifier: Apache-2.0
#pragma once
// GPUs that need not be there, as cuDNN is told of them.

#include <string>

#include "sft/ops/attention_graphs.hpp"

namespace sft::ops::cuda::cudnn {

/// Its properties as the frontend writes them (JSON). Numbers that neither the code of graphs nor whether they load
/// depends on, such as clocks, are those of one GPU of this compute capability (tests/cudnn_support holds that they do
/// not). Throws a
/// configuration Error where the compute capability is none of those that are known, or the number of multiprocessors
/// is not given. Pure.
[[nodiscard]] std::string properties_of(const AbsentGpu& gpu);

/// Loads the stand-in for the driver (AbsentGpu::driver_file) in front of what the system has, unless something in this
/// process has loaded that before. To be called before cuDNN is loaded. Throws a configuration Error where it is not
/// there.
void load_absent_driver(const AbsentGpu& gpu);

}  // namespace sft::ops::cuda::cudnn
