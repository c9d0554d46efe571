// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimizer under the backward pass: a unit is stepped as soon as its gradient is summed, while the pass goes on
// with the units before it. So a file of state is read and written beside the whole pass, not behind it, and a gradient
// needs memory no longer than that. For runs without clipping alone, which needs the norm of all gradients first.

#include <memory>
#include <optional>

#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"
#include "sft/optim/gradient_norm.hpp"
#include "sft/optim/optimizer.hpp"
#include "sft/parallel/unit_storage.hpp"

namespace sft::rank {

class EarlyUpdate {
 public:
  /// What of a gradient is told before it goes.
  struct Norm {
    const optim::GradientNorm& norm;
    Tensor squares;  ///< float64 (1), += those of each unit
  };

  /// References outlive it. `comm_stream` carries the sums of gradients. `norm`: where units share memory for their
  /// gradients, and nobody can ask behind the pass.
  EarlyUpdate(optim::Optimizer& optimizer, const parallel::UnitStorage& storage, ops::Backend& backend,
              device::Device& device, device::Stream& comm_stream, std::optional<Norm> norm);

  /// Before the backward pass of a step's last micro-batch.
  void begin(std::int64_t step, double learning_rate);
  /// The sums of the unit's gradient are queued (ShardedUnits::on_gradient_queued): steps the unit before it, whose
  /// sums had the time of a unit's backward pass.
  void gradient_queued(parallel::UnitIndex unit);
  /// Behind the backward pass: steps what is left.
  void finish();

 private:
  void step_waiting();

  optim::Optimizer& optimizer_;
  const parallel::UnitStorage& storage_;
  ops::Backend& backend_;
  device::Stream& comm_stream_;
  const std::optional<Norm> norm_;
  std::unique_ptr<device::Event> summed_;  ///< the gradient of the unit that waits
  std::optional<parallel::UnitIndex> waiting_unit_;
};

}  // namespace sft::rank
