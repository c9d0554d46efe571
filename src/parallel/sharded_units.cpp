// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sharded_units.hpp"

#include <algorithm>
#include <span>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::parallel {

ShardedUnits::ShardedUnits(const UnitStorage& storage, const UnitBuffers& buffers, const ShardingPolicy& policy,
                           const SlotAssignment& slots, const mesh::Groups& groups, device::Device& device,
                           ops::Backend& backend, comm::Collectives& collectives, device::Stream& comm_stream)
    : storage_(storage),
      buffers_(buffers),
      shard_map_(storage.trainable()),
      policy_(policy),
      slots_(slots),
      groups_(groups),
      device_(device),
      backend_(backend),
      collectives_(collectives),
      comm_stream_(comm_stream),
      order_(shard_map_, slots),
      compute_done_(device.make_event()),
      comm_done_(device.make_event()),
      parameters_ready_(device.make_event()),
      fetched_(device.make_event()) {
  if (policy.parameters_on_host) {
    fetch_stream_ = device.make_stream(device::Priority::communication);
    fetch_stream_->set_name("parameters in");
  }
  for (const Unit& unit : shard_map_.units()) {
    units_.push_back({.gather_done = device.make_event(), .touched = std::vector<bool>(unit.parameters.size())});
  }
  for (int slot = 0; slot < slots.num_parameter_slots(); ++slot) parameter_slots_free_.push_back(device.make_event());
  for (int slot = 0; slot < slots.num_gradient_slots(); ++slot) gradient_slots_free_.push_back(device.make_event());
}

device::RangeLabel ShardedUnits::label(const char* what, UnitIndex unit) const {
  return {.category = "unit", .what = what, .of = shard_map_.unit(unit).name};
}

device::Event& ShardedUnits::parameter_slot_free(UnitIndex unit) const {
  return *parameter_slots_free_[slots_.parameters[unit]];
}

device::Event& ShardedUnits::gradient_slot_free(UnitIndex unit) const {
  return *gradient_slots_free_[slots_.gradients[unit]];
}

void ShardedUnits::parameters_written() {
  parameters_ready_->record(backend_.stream());
  for (UnitState& unit_state : units_) unit_state.is_stale = true;
}

void ShardedUnits::refresh_compute_copy() {
  if (!storage_.compute_copy().empty()) backend_.copy(storage_.compute_copy(), storage_.parameters());
}

void ShardedUnits::begin_pass(const std::vector<UnitIndex>& units, Pass pass) {
  SFT_ENSURE(walk_.num_stops() == 0, "a pass begins when the one before has ended");
  walk_ = UnitWalk(units, slots_);
  pass_ = pass;
  next_stop_ = 0;
  gather(walk_.unit(0));
  if (walk_.num_stops() > 1 && order_.may_gather(walk_.unit(1))) gather(walk_.unit(1));
}

void ShardedUnits::enter(UnitIndex unit) {
  if (next_stop_ > 0 && walk_.unit(next_stop_ - 1) == unit) return;
  SFT_ENSURE(next_stop_ < walk_.num_stops(), "units are entered as the pass announced");
  SFT_ENSURE(walk_.unit(next_stop_) == unit, "units are entered as the pass announced");
  if (next_stop_ > 0) leave(next_stop_ - 1);
  ++next_stop_;
  gather(unit);
  use(unit);
  if (next_stop_ == walk_.num_stops()) return;
  if (const UnitIndex next = walk_.unit(next_stop_); order_.may_gather(next)) gather(next);
}

void ShardedUnits::end_pass() {
  SFT_ENSURE(next_stop_ == walk_.num_stops(), "a pass ends behind its last unit");
  SFT_ENSURE(next_stop_ > 0, "a pass ends behind its last unit");
  leave(next_stop_ - 1);
  next_stop_ = 0;
  walk_ = {};
}

void ShardedUnits::leave(std::size_t stop) {
  const UnitIndex unit = walk_.unit(stop);
  switch (walk_.departure(stop)) {
    case Departure::keep:
      return;
    case Departure::reshard:
      reshard(unit);
      return;
    case Departure::release:
      release(unit);
      if (pass_ == Pass::micro_batch) reduce(unit);
      return;
  }
}

void ShardedUnits::gather(UnitIndex unit) {
  if (!order_.gather(unit)) return;
  UnitState& unit_state = state(unit);
  const bool once_a_step = !policy_.parameters && policy_.optimizer_state;
  if (!policy_.parameters && !(once_a_step && unit_state.is_stale)) return;
  unit_state.is_stale = false;
  const bool of_neighbours = unit_state.is_resharded && policy_.reshard == config::Reshard::to_groups;
  if (policy_.parameters) comm_stream_.wait(parameter_slot_free(unit));
  comm_stream_.wait(*parameters_ready_);
  if (policy_.parameters_on_host && !of_neighbours) fetch(unit);
  const auto gather_flat = [&](const Tensor& whole, const Tensor& shard, const Tensor& kept) {
    if (shard.empty()) return;
    if (of_neighbours) return collectives_.all_gather(groups_.reshard, whole, kept, comm_stream_);
    collectives_.all_gather(groups_.fsdp, whole, policy_.parameters_on_host ? own_part(whole, shard) : shard,
                            comm_stream_);
  };
  timed(device_.timeline(), comm_stream_, label("gather", unit), [&] {
    gather_flat(buffers_.parameters(unit), storage_.parameters_of(unit), buffers_.kept_parameters(unit));
    if (!policy_.parameters) return;
    gather_flat(buffers_.frozen_parameters(unit), storage_.frozen_parameters_of(unit),
                buffers_.kept_frozen_parameters(unit));
  });
  unit_state.gather_done->record(comm_stream_);
}

Tensor ShardedUnits::own_part(const Tensor& whole, const Tensor& shard) const {
  return whole.rows(groups_.fsdp.rank() * shard.num_elements(), shard.num_elements());
}

void ShardedUnits::fetch(UnitIndex unit) {
  fetch_stream_->wait(parameter_slot_free(unit));
  fetch_stream_->wait(*parameters_ready_);
  const auto fetch_flat = [&](const Tensor& whole, const Tensor& shard) {
    if (shard.empty()) return;
    device_.copy(own_part(whole, shard).data, shard.data, shard.size_bytes(), *fetch_stream_);
  };
  fetch_flat(buffers_.parameters(unit), storage_.parameters_of(unit));
  fetch_flat(buffers_.frozen_parameters(unit), storage_.frozen_parameters_of(unit));
  fetched_->record(*fetch_stream_);
  comm_stream_.wait(*fetched_);
}

void ShardedUnits::use(UnitIndex unit) {
  order_.use(unit);
  device::Event& gather_done = *state(unit).gather_done;
  if (groups_.fsdp.size() == 1) return backend_.stream().wait(gather_done);  // nothing that a timeline should show
  timed_wait(device_.timeline(), backend_.stream(), gather_done, "wait for gather", shard_map_.unit(unit).name);
}

void ShardedUnits::release(UnitIndex unit) {
  state(unit).is_resharded = false;
  if (order_.release(unit) && policy_.parameters) parameter_slot_free(unit).record(backend_.stream());
}

void ShardedUnits::reshard(UnitIndex unit) {
  if (policy_.parameters && policy_.reshard == config::Reshard::to_groups) {
    const auto keep = [&](const Tensor& kept, const Tensor& whole) {
      if (kept.empty()) return;
      const Tensor own = whole.rows(groups_.reshard.rank() * kept.num_elements(), kept.num_elements());
      device_.copy(kept.data, own.data, own.size_bytes(), backend_.stream());
    };
    keep(buffers_.kept_parameters(unit), buffers_.parameters(unit));
    keep(buffers_.kept_frozen_parameters(unit), buffers_.frozen_parameters(unit));
  }
  release(unit);
  state(unit).is_resharded = true;
}

void ShardedUnits::reduce(UnitIndex unit) {
  order_.reduce(unit);
  UnitState& unit_state = state(unit);
  SFT_ENSURE(unit_state.reduces_left > 0, "a unit is reduced once a micro-batch");
  const bool is_last = --unit_state.reduces_left == 0;
  if (shard_map_.unit(unit).num_elements == 0) return;
  if (!policy_.gradients && !is_last) return;
  zero_untouched(unit);
  compute_done_->record(backend_.stream());
  comm_stream_.wait(*compute_done_);
  timed(device_.timeline(), comm_stream_, label("reduce", unit), [&] {
    if (policy_.optimizer_state) {
      collectives_.reduce_scatter_add(groups_.fsdp, storage_.gradients_of(unit), buffers_.gradients(unit),
                                      comm_stream_);
    }
    if (policy_.gradients) {
      gradient_slot_free(unit).record(comm_stream_);
      std::fill(unit_state.touched.begin(), unit_state.touched.end(), false);
    }
    if (is_last) sum_replicas(unit);
  });
  if (is_last && gradient_queued_) gradient_queued_(unit);
}

void ShardedUnits::sum_replicas(UnitIndex unit) {
  if (groups_.kv_replicas.size() > 1) {
    for (const Tensor& part : gradient_parts(unit, TpSplit::kv_rows)) {
      collectives_.all_reduce(groups_.kv_replicas, part, comm::ReduceOp::sum, comm_stream_);
    }
  }
  if (groups_.replicate.size() > 1) {
    collectives_.all_reduce(groups_.replicate, storage_.gradients_of(unit), comm::ReduceOp::sum, comm_stream_);
  }
}

std::vector<Tensor> ShardedUnits::gradient_parts(UnitIndex unit, TpSplit split) const {
  std::vector<Tensor> parts;
  for (const ShardRange& range :
       shard_map_.ranges_of_unit(unit, [&](const Parameter& p) { return p.split == split; })) {
    parts.push_back(storage_.gradients().rows(range.begin, range.count));
  }
  return parts;
}

std::span<const Parameter> ShardedUnits::members_of(const ParameterGroup& group) const {
  const std::span parameters((group.trainable ? shard_map_ : storage_.frozen()).unit(group.unit).parameters);
  return parameters.subspan(group.first, group.count);
}

std::int64_t ShardedUnits::first_row(const ParameterGroup& group, int member) const {
  std::int64_t rows = 0;
  for (const Parameter& before : members_of(group).first(member)) rows += before.local_rows;
  return rows;
}

Tensor ShardedUnits::slice(const Tensor& flat, const ParameterGroup& group) const {
  const std::span<const Parameter> members = members_of(group);
  const Parameter& first = members.front();
  std::int64_t rows = 0;
  for (const Parameter& p : members) {
    SFT_ENSURE(p.local_columns == first.local_columns, "fused parameters have equal columns");
    SFT_ENSURE(p.joins_previous == (&p != &first), "a group of parameters is what the unit joins");
    rows += p.local_rows;
  }
  const Tensor part = flat.rows(first.unit_offset, rows * first.local_columns);
  return first.is_vector() ? part : part.view({rows, first.local_columns});
}

Tensor ShardedUnits::parameter(const ParameterGroup& group) const {
  order_.read_parameters(group.unit);
  return slice(group.trainable ? buffers_.parameters(group.unit) : buffers_.frozen_parameters(group.unit), group);
}

GradientTarget ShardedUnits::gradient(const ParameterGroup& group) {
  SFT_ENSURE(group.trainable, "frozen parameters have no gradient");
  order_.write_gradient(group.unit);
  UnitState& unit_state = state(group.unit);
  if (policy_.gradients) backend_.stream().wait(gradient_slot_free(group.unit));
  const bool accumulate = unit_state.touched[group.first];
  const auto first = unit_state.touched.begin() + group.first, end = first + group.count;
  SFT_ENSURE(std::count(first, end, accumulate) == group.count, "fused gradients are written together");
  std::fill(first, end, true);
  return {slice(buffers_.gradients(group.unit), group), accumulate};
}

Tensor ShardedUnits::accumulated_gradient(const ParameterGroup& group) {
  if (!group.trainable) return {};
  const GradientTarget target = gradient(group);
  if (!target.accumulate) {
    device_.fill_zero(target.tensor.data, target.tensor.size_bytes(), backend_.stream());
  }
  return target.tensor;
}

void ShardedUnits::zero_untouched(UnitIndex unit) {
  const Tensor whole = buffers_.gradients(unit);
  const auto zero = [&](std::int64_t begin, std::int64_t count) {
    const Tensor part = whole.rows(begin, count);
    device_.fill_zero(part.data, part.size_bytes(), backend_.stream());
  };
  if (policy_.gradients) backend_.stream().wait(gradient_slot_free(unit));
  const std::vector<Parameter>& parameters = shard_map_.unit(unit).parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!state(unit).touched[i]) zero(parameters[i].unit_offset, parameters[i].local_elements());
  }
  for (const ShardRange& gap : shard_map_.padding_of_unit(unit)) zero(gap.begin, gap.count);
}

void ShardedUnits::begin_step(std::int64_t num_micro_batches) {
  wait_for_sums();  // of a step that was left unfinished
  const Tensor gradients = storage_.gradients();
  if (policy_.optimizer_state) device_.fill_zero(gradients.data, gradients.size_bytes(), backend_.stream());
  for (UnitState& unit_state : units_) {
    std::fill(unit_state.touched.begin(), unit_state.touched.end(), false);
    unit_state.reduces_left = num_micro_batches;
  }
}

void ShardedUnits::wait_for_sums() {
  comm_done_->record(comm_stream_);
  timed_wait(device_.timeline(), backend_.stream(), *comm_done_, "wait for gradients");
}

void ShardedUnits::finish_step() {
  wait_for_sums();
  if (groups_.tp.size() == 1) return;
  device::Stream& stream = backend_.stream();
  for (UnitIndex unit = 0; unit < shard_map_.num_units(); ++unit) {
    for (const Tensor& part : gradient_parts(unit, TpSplit::partial)) {
      collectives_.all_reduce(groups_.tp, part, comm::ReduceOp::sum, stream);
    }
  }
}

comm::StagingPlan ShardedUnits::staging(const ShardMap& trainable, const ShardingPolicy& policy) {
  comm::StagingPlan plan;
  for (const Unit& unit : trainable.units()) {
    if (policy.optimizer_state) {
      plan.max_reduce_scatter_bytes =
          std::max(plan.max_reduce_scatter_bytes, checked_cast<std::size_t>(unit.num_elements) * sizeof(float));
    }
    plan.max_all_reduce_bytes =
        std::max(plan.max_all_reduce_bytes, checked_cast<std::size_t>(unit.shard_elements) * sizeof(float));
  }
  return plan;
}

}  // namespace sft::parallel
