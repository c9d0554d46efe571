// SPDX-License-Identifier: Apache-2.0
// Alone in its source: a test's program has a number of its own.
#include <cstdint>

#include "ops/cuda/cudnn/working_memory.hpp"

namespace sft::ops::cuda::cudnn {

std::int64_t rectangle_rows() { return 4096; }

}  // namespace sft::ops::cuda::cudnn
