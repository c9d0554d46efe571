// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "sft/device/kind.hpp"

namespace sft::train {

/// What a rank computes on, as far as sizes depend on it.
struct Machine {
  device::Kind kind = device::Kind::cpu;
  int num_threads = 1;  ///< OpenMP threads of the rank; device/node.hpp says how many there will be
  /// Of a GPU: what CUDA, its libraries and other programs hold beside the rank's arenas, or will hold.
  std::size_t gpu_process_bytes = 0;
};

}  // namespace sft::train
