// SPDX-License-Identifier: Apache-2.0
#pragma once
// What moves windows of the optimizer's state between the place where it lies and the buffers in which they are worked
// on, beside the ops.

#include <cstddef>
#include <vector>

#include "sft/tensor/tensor.hpp"

namespace sft::optim {

class StateTransfers {
 public:
  /// A part of a window (the master weights, a moment ...), and where it is in a buffer: 1-D.
  struct Transfer {
    std::size_t window, part;
    Tensor memory;
  };

  virtual ~StateTransfers() = default;

  /// Before the first transfer of a step: what ops queued so far wrote to the state is read.
  virtual void begin_step() = 0;
  /// Behind the last one: ops queued from now on find the state written, where they can reach it.
  virtual void end_step() = 0;

  // For each buffer start_reading, finish_reading, start_writing and finish_writing follow each other.
  virtual void start_reading(std::size_t buffer, const std::vector<Transfer>& transfers) = 0;
  /// Ops queued from now on find what was read.
  virtual void finish_reading(std::size_t buffer) = 0;
  /// Writes what the ops queued so far leave in the buffer.
  virtual void start_writing(std::size_t buffer, const std::vector<Transfer>& transfers) = 0;
  /// Before the buffer is read into again, or the state is read.
  virtual void finish_writing(std::size_t buffer) = 0;

  /// Waits for all transfers, whatever became of them.
  virtual void drain() noexcept = 0;
};

}  // namespace sft::optim
