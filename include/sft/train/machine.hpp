// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sft/device/kind.hpp"

namespace sft::train {

/// What a rank computes on, as far as sizes depend on it.
struct Machine {
  device::Kind kind = device::Kind::cpu;
  int num_threads = 1;  ///< OpenMP threads of the rank; device/node.hpp says how many there will be
};

}  // namespace sft::train
