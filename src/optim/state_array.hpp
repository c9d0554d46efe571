// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers that a step of the optimizer reads and writes: the master weights, or a kind of state. Pure.

#include <cstdint>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/optim/optimizer.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::optim {

/// A flat array, cut into windows that are in memory at a time.
struct StateArray {
  DType dtype = DType::float32;
  StateLocation place = StateLocation::device;
  std::vector<parallel::ShardRange> windows;  ///< neighbours, from 0 on; a window may have nothing of it

  [[nodiscard]] std::int64_t num_elements() const {
    return windows.empty() ? 0 : windows.back().begin + windows.back().count;
  }
};

}  // namespace sft::optim
