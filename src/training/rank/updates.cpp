// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/updates.hpp"

#include <algorithm>
#include <optional>

#include "rank/early_update.hpp"

namespace sft::rank {

using optim::Optimizer;
using parallel::UnitIndex;

namespace {

std::vector<TrainedPart*> stepped_parts(RankPlan& plan, Updates::Files files) {
  std::vector<TrainedPart*> parts;
  for (TrainedPart& part : plan.trained) {
    if (files == Updates::Files::stepped || part.optimizer->file_bytes() == 0) parts.push_back(&part);
  }
  return parts;
}

}  // namespace

Updates::Updates(RankPlan& plan, RankWorkers& workers, device::Device& device, Files files)
    : plan_(plan),
      workers_(workers),
      device_(device),
      ops_(plan.updates_beside() ? *workers.step_ops : *workers.ops),
      parts_(stepped_parts(plan, files)),
      computed_(device.make_event()),
      summed_(device.make_event()),
      normed_(device.make_event()),
      updated_(device.make_event()) {
  const bool sums_over_tp = plan.place.size(Axis::tp) > 1;
  for (const TrainedPart& part : plan.trained) norms_.emplace_back(part.shard_map(), sums_over_tp);
  if (plan.updates_early()) {
    for (TrainedPart* part : parts_) {
      using Norm = EarlyUpdate::Norm;
      const auto number = static_cast<std::size_t>(part - plan.trained.data());
      const auto norm = plan.gradients_leave ? std::optional<Norm>(Norm{norms_[number], squares()}) : std::nullopt;
      early_.push_back(std::make_unique<EarlyUpdate>(*part->optimizer, part->storage, *workers.ops, device,
                                                     *workers.streams.comm, norm));
    }
  }
  workers.units.on_gradient_queued([this](UnitIndex unit) { gradient_queued(unit); });
}

Updates::~Updates() = default;

void Updates::gradient_queued(UnitIndex unit) {
  for (const auto& part : early_) part->gradient_queued(unit);
  if (!plan_.norms_beside()) return;
  ops::Backend& ops = *workers_.step_ops;
  summed_->record(*workers_.streams.comm);
  ops.stream().wait(*summed_);
  device::timed(device_.timeline(), ops.stream(), {.category = "step", .what = "gradient norm"}, [&] {
    for (std::size_t i = 0; i < norms_.size(); ++i) {
      norms_[i].sum_squares_of(unit, plan_.trained[i].storage, ops, squares());
    }
  });
}

void Updates::before_last_micro_batch(std::int64_t step, double learning_rate, bool is_certain) {
  for (const auto& part : early_) part->begin(step, learning_rate);
  if (plan_.updates_early() || !is_certain) return;
  follow_compute();
  for (TrainedPart* part : parts_) part->optimizer->read_ahead(Optimizer::Order::ascending);
}

void Updates::finish_gradients() {
  workers_.units.finish_step();
  for (const auto& part : early_) part->finish();
  if (plan_.gradients_leave) return;
  if (plan_.norms_beside()) {
    normed_->record(workers_.step_ops->stream());
    timed_wait(device_.timeline(), compute(), *normed_, "wait for gradient norm");
    for (std::size_t i = 0; i < norms_.size(); ++i) {
      norms_[i].sum_late_squares(plan_.trained[i].storage, *workers_.ops, squares());
    }
    return;
  }
  device::timed(device_.timeline(), compute(), {.category = "step", .what = "gradient norm"}, [&] {
    for (std::size_t i = 0; i < norms_.size(); ++i) {
      norms_[i].sum_squares(plan_.trained[i].storage, *workers_.ops, squares());
    }
  });
}

void Updates::update(std::int64_t step, double learning_rate, double gradient_scale) {
  if (plan_.updates_early()) return workers_.units.parameters_written();
  for (TrainedPart* part : parts_) {
    part->optimizer->begin_step(step, learning_rate, gradient_scale, Optimizer::Order::ascending);
    part->optimizer->share(part->storage, *workers_.ops);
  }
  follow_compute();
  device::timed(device_.timeline(), stream(), {.category = "step", .what = "optimizer"}, [&] { step_units(); });
  updated_->record(stream());
}

void Updates::step_units() {
  // Weights that lie in the node's memory are there when all writes are done, those of the last unit too.
  const bool unit_by_unit = std::ranges::all_of(parts_, [](const TrainedPart* part) {
    return part->optimizer->master_location() == optim::StateLocation::device;
  });
  const auto units = plan_.parts.front().shard_map().unit_indices();
  const UnitIndex last = UnitIndex::from(plan_.parts.front().shard_map().num_units() - 1);
  for (const UnitIndex unit : units) {
    for (TrainedPart* part : parts_) part->optimizer->step_unit(unit, part->storage, ops_);
    // Who waits for the last unit waits for all that an optimizer does.
    if (unit == last) {
      for (TrainedPart* part : parts_) part->optimizer->end_step(part->storage, ops_);
    }
    if (unit_by_unit) workers_.units.parameters_written(unit, stream());
  }
  if (unit_by_unit) return;
  for (const UnitIndex unit : units) workers_.units.parameters_written(unit, stream());
}

void Updates::wait() { compute().wait(*updated_); }

void Updates::follow_compute() {
  computed_->record(compute());
  stream().wait(*computed_);
}

}  // namespace sft::rank
