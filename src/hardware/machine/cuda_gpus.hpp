// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sft/machine/gpus.hpp"

namespace sft::machine {

/// visible_gpus() of a build with CUDA.
[[nodiscard]] VisibleGpus visible_cuda_gpus();

}  // namespace sft::machine
