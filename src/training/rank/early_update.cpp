// SPDX-License-Identifier: Apache-2.0
#include "rank/early_update.hpp"

namespace sft::rank {

EarlyUpdate::EarlyUpdate(optim::Optimizer& optimizer, const parallel::UnitStorage& storage, ops::Backend& backend,
                         device::Device& device, device::Stream& comm_stream, std::optional<Norm> norm)
    : optimizer_(optimizer),
      storage_(storage),
      backend_(backend),
      comm_stream_(comm_stream),
      norm_(norm),
      summed_(device.make_event()) {}

void EarlyUpdate::begin(std::int64_t step, double learning_rate) {
  waiting_unit_.reset();
  optimizer_.begin_step(step, learning_rate, /*gradient_scale=*/1.0, optim::Optimizer::Order::descending);
}

void EarlyUpdate::gradient_queued(parallel::UnitIndex unit) {
  step_waiting();
  waiting_unit_ = unit;
  summed_->record(comm_stream_);
}

void EarlyUpdate::finish() {
  step_waiting();
  optimizer_.end_step(storage_, backend_);
}

void EarlyUpdate::step_waiting() {
  if (!waiting_unit_) return;
  backend_.stream().wait(*summed_);
  if (norm_) norm_->norm.sum_squares_of(*waiting_unit_, storage_, backend_, norm_->squares);
  optimizer_.step_unit(*waiting_unit_, storage_, backend_);
  waiting_unit_.reset();
}

}  // namespace sft::rank
