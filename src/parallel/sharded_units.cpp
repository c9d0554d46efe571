#include "sft/parallel/sharded_units.hpp"

#include <algorithm>

#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"

namespace sft::parallel {

ShardedUnits::ShardedUnits(const ShardMap& shard_map, const mesh::Groups& groups, const Options& options,
                           device::Device& device, ops::Backend& backend, comm::Collectives& collectives,
                           device::Stream& comm_stream)
    : shard_map_(shard_map),
      groups_(groups),
      options_(options),
      device_(device),
      backend_(backend),
      collectives_(collectives),
      comm_stream_(comm_stream),
      compute_done_(device.make_event()),
      comm_done_(device.make_event()),
      parameters_ready_(device.make_event()) {
  units_.resize(shard_map.units().size());
  for (std::size_t u = 0; u < units_.size(); ++u) {
    units_[u].touched.resize(shard_map.units()[u].parameters.size());
    units_[u].gather_done = device.make_event();
  }
  assign_slots();
}

// Two slots serve all blocks, one unit ahead of the other; embedding and head share one, unless tied, when the table is
// used on both ends. Without resharding every unit keeps its own parameters until its backward pass.
void ShardedUnits::assign_slots() {
  const int last = static_cast<int>(units_.size()) - 1;
  const int head_slot = options_.tied ? 3 : 0;
  for (int u = 0; u <= last; ++u) {
    const int slot = u == 0 ? 0 : u == last ? head_slot : 1 + u % 2;
    units_[static_cast<std::size_t>(u)].gradient_slot = slot;
    units_[static_cast<std::size_t>(u)].parameter_slot = options_.reshard_after_forward ? slot : u;
  }
  const auto make = [&](std::vector<Slot>& slots, int UnitState::*index) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const auto slot = static_cast<std::size_t>(units_[u].*index);
      if (slots.size() <= slot) slots.resize(slot + 1);
      slots[slot].elements = std::max(slots[slot].elements, shard_map_.units()[u].num_elements);
    }
    for (Slot& slot : slots) slot.free = device_.make_event();
  };
  make(parameter_slots_, &UnitState::parameter_slot);
  make(gradient_slots_, &UnitState::gradient_slot);
}

void ShardedUnits::lay_out(Arenas& arenas) {
  const std::int64_t n = shard_map_.rank_shard_elements();
  const bool low_precision = options_.compute != DType::float32;
  parameters_ = take(arenas.parameters, DType::float32, {n});
  if (low_precision) compute_shard_ = take(arenas.parameters, options_.compute, {n});
  gradients_ = take(arenas.gradients, DType::float32, {n});
  exp_avg_ = take(arenas.optimizer, DType::float32, {n});
  exp_avg_sq_ = take(arenas.optimizer, DType::float32, {n});
  if (is_sharded()) {
    for (Slot& slot : parameter_slots_) slot.buffer = take(arenas.unit_buffers, options_.compute, {slot.elements});
    for (Slot& slot : gradient_slots_) slot.buffer = take(arenas.unit_buffers, DType::float32, {slot.elements});
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const Unit& unit = shard_map_.units()[u];
    UnitState& state = units_[u];
    const Tensor& source = low_precision ? compute_shard_ : parameters_;
    state.shard = source.rows(unit.shard_offset, unit.shard_elements);
    state.gradient_shard = gradients_.rows(unit.shard_offset, unit.shard_elements);
    if (is_sharded()) {
      state.full = parameter_slots_[static_cast<std::size_t>(state.parameter_slot)].buffer.rows(0, unit.num_elements);
      state.full_gradient =
          gradient_slots_[static_cast<std::size_t>(state.gradient_slot)].buffer.rows(0, unit.num_elements);
    } else {
      state.full = state.shard;
      state.full_gradient = state.gradient_shard;
    }
  }
}

void ShardedUnits::parameters_written() { parameters_ready_->record(backend_.stream()); }

void ShardedUnits::refresh_compute_shard() {
  if (!compute_shard_.empty()) backend_.copy(compute_shard_, parameters_);
}

void ShardedUnits::gather(int unit) {
  UnitState& state = units_[static_cast<std::size_t>(unit)];
  if (!is_sharded() || state.gathered) return;
  comm_stream_.wait(*parameter_slots_[static_cast<std::size_t>(state.parameter_slot)].free);
  comm_stream_.wait(*parameters_ready_);
  collectives_.all_gather(groups_.fsdp, state.full, state.shard, comm_stream_);
  state.gather_done->record(comm_stream_);
  state.gathered = true;
}

void ShardedUnits::use(int unit) {
  if (!is_sharded()) return;
  gather(unit);
  backend_.stream().wait(*units_[static_cast<std::size_t>(unit)].gather_done);
}

void ShardedUnits::release(int unit) {
  UnitState& state = units_[static_cast<std::size_t>(unit)];
  if (!is_sharded() || !state.gathered) return;
  parameter_slots_[static_cast<std::size_t>(state.parameter_slot)].free->record(backend_.stream());
  state.gathered = false;
}

void ShardedUnits::reduce(int unit) {
  if (!is_sharded()) return;
  zero_untouched(unit);
  UnitState& state = units_[static_cast<std::size_t>(unit)];
  compute_done_->record(backend_.stream());
  comm_stream_.wait(*compute_done_);
  collectives_.reduce_scatter_add(groups_.fsdp, state.gradient_shard, state.full_gradient, comm_stream_);
  gradient_slots_[static_cast<std::size_t>(state.gradient_slot)].free->record(comm_stream_);
  std::fill(state.touched.begin(), state.touched.end(), false);
}

Tensor ShardedUnits::slice(const Tensor& flat, int unit, int index, int count) const {
  const auto& parameters = shard_map_.units()[static_cast<std::size_t>(unit)].parameters;
  const Parameter& first = parameters[static_cast<std::size_t>(index)];
  std::int64_t rows = 0;
  for (int i = index; i < index + count; ++i) {
    const Parameter& p = parameters[static_cast<std::size_t>(i)];
    ensure(p.local_columns == first.local_columns, "fused parameters have equal columns");
    rows += p.local_rows;
  }
  const Tensor part = flat.rows(first.unit_offset, rows * first.local_columns);
  return first.is_vector() ? part : part.view({rows, first.local_columns});
}

Tensor ShardedUnits::parameter(int unit, int index, int count) const {
  return slice(units_[static_cast<std::size_t>(unit)].full, unit, index, count);
}

GradientTarget ShardedUnits::gradient(int unit, int index, int count) {
  UnitState& state = units_[static_cast<std::size_t>(unit)];
  if (is_sharded()) {
    backend_.stream().wait(*gradient_slots_[static_cast<std::size_t>(state.gradient_slot)].free);
  }
  const bool accumulate = state.touched[static_cast<std::size_t>(index)];
  for (int i = index; i < index + count; ++i) {
    ensure(state.touched[static_cast<std::size_t>(i)] == accumulate, "fused gradients are written together");
    state.touched[static_cast<std::size_t>(i)] = true;
  }
  return {slice(state.full_gradient, unit, index, count), accumulate};
}

Tensor ShardedUnits::accumulated_gradient(int unit, int index, int count) {
  const GradientTarget target = gradient(unit, index, count);
  if (!target.accumulate) {
    device_.fill_zero(target.tensor.data, target.tensor.size_bytes(), backend_.stream());
  }
  return target.tensor;
}

void ShardedUnits::zero_untouched(int unit) {
  const Parameter& last = shard_map_.units()[static_cast<std::size_t>(unit)].parameters.back();
  const std::int64_t end = last.unit_offset + last.local_elements();
  const UnitState& state = units_[static_cast<std::size_t>(unit)];
  for (std::size_t i = 0; i < state.touched.size(); ++i) {
    if (!state.touched[i]) (void)accumulated_gradient(unit, static_cast<int>(i));
  }
  const Tensor padding = state.full_gradient.rows(end, state.full_gradient.num_elements() - end);
  if (!padding.empty()) device_.fill_zero(padding.data, padding.size_bytes(), backend_.stream());
}

void ShardedUnits::begin_step() {
  if (is_sharded()) device_.fill_zero(gradients_.data, gradients_.size_bytes(), backend_.stream());
  for (UnitState& state : units_) std::fill(state.touched.begin(), state.touched.end(), false);
}

void ShardedUnits::finish_gradients() {
  if (!is_sharded()) {
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) zero_untouched(u);
  }
  comm_done_->record(comm_stream_);
  device::Stream& stream = backend_.stream();
  stream.wait(*comm_done_);
  const auto sum_over = [&](const comm::Group& group, TpSplit split) {
    if (group.size() == 1) return;
    for (const ShardRange& range : shard_map_.ranges([&](const Parameter& p) { return p.split == split; })) {
      collectives_.all_reduce(group, gradients_.rows(range.begin, range.count), comm::ReduceOp::sum, stream);
    }
  };
  sum_over(groups_.tp, TpSplit::partial);
  sum_over(groups_.kv_replicas, TpSplit::kv_rows);
  if (groups_.replicate.size() > 1) {
    for (const UnitState& state : units_) {
      collectives_.all_reduce(groups_.replicate, state.gradient_shard, comm::ReduceOp::sum, stream);
    }
  }
}

comm::StagingPlan ShardedUnits::staging() const {
  comm::StagingPlan plan;
  for (const Unit& unit : shard_map_.units()) {
    if (is_sharded()) {
      plan.max_reduce_scatter_bytes =
          std::max(plan.max_reduce_scatter_bytes, checked_cast<std::size_t>(unit.num_elements) * sizeof(float));
    }
    plan.max_all_reduce_bytes =
        std::max(plan.max_all_reduce_bytes, checked_cast<std::size_t>(unit.shard_elements) * sizeof(float));
  }
  return plan;
}

}  // namespace sft::parallel
