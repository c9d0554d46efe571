// SPDX-License-Identifier: Apache-2.0
// In the place of src/hardware/ops/cuda/cudnn/rectangle_rows.cpp: rectangles come in pieces where rows have a few
// hundred tokens.
#include <cstdint>

#include "ops/cuda/cudnn/working_memory.hpp"

namespace sft::ops::cuda::cudnn {

std::int64_t rectangle_rows() { return 128; }

}  // namespace sft::ops::cuda::cudnn
