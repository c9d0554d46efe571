// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sharded_units.hpp"

#include <algorithm>
#include <span>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/transfer/host_mover.hpp"

namespace sft::parallel {

namespace {

/// The piece that the rank of `group` has of a tensor whose ranks have `count` elements each.
Tensor own_piece(const Tensor& whole, std::int64_t count, const comm::Group& group) {
  return whole.rows(group.rank() * count, count);
}

/// Whether the part has gradients, and parameters in the unit.
bool has_gradients(const UnitStorage& stored, UnitIndex unit) {
  return stored.part().has_gradient && stored.shard_map().unit(unit).num_elements > 0;
}

/// What of the unit's gradient shard belongs to parameters that are split so.
std::vector<Tensor> gradient_pieces(const UnitStorage& stored, UnitIndex unit, TpSplit split) {
  std::vector<Tensor> pieces;
  for (const ShardRange& range :
       stored.shard_map().ranges_of_unit(unit, [&](const Parameter& p) { return p.split == split; })) {
    pieces.push_back(stored.gradients().rows(range.begin, range.count));
  }
  return pieces;
}

}  // namespace

void ShardedUnits::UnitState::forget_gradients() {
  for (std::vector<bool>& parameters : touched) std::fill(parameters.begin(), parameters.end(), false);
}

ShardedUnits::ShardedUnits(const StoredParts& storage, const UnitBuffers& buffers, const ShardingPolicy& policy,
                           const SlotAssignment& slots, const mesh::Groups& groups, device::Device& device,
                           ops::Backend& backend, comm::Collectives& collectives, device::Stream& comm_stream,
                           device::Stream& gather_stream)
    : storage_(storage),
      buffers_(buffers),
      policy_(policy),
      slots_(slots),
      groups_(groups),
      device_(device),
      backend_(backend),
      collectives_(collectives),
      comm_stream_(comm_stream),
      gather_stream_(gather_stream),
      fp8_(storage, buffers, groups, device, backend, collectives),
      order_(names(), slots),
      compute_done_(device.make_event()),
      comm_done_(device.make_event()) {
  if (policy.parameters_on_host) {
    std::vector<Tensor> places;
    for (const UnitIndex unit : names().unit_indices()) {
      for (const UnitStorage& stored : storage) places.push_back(stored.parameters_of(unit));
    }
    parameters_in_ = std::make_unique<transfer::HostMover>(std::move(places), 1, device, backend.stream(), "parameters",
                                                           device::Priority::communication);
  }
  for (const UnitIndex unit : names().unit_indices()) {
    units_.push_back({.gather_done = device.make_event(), .written = device.make_event(), .touched = {}});
    for (const UnitStorage& stored : storage) {
      units_[unit].touched.push_back(std::vector<bool>(stored.shard_map().unit(unit).parameters.size()));
    }
  }
  for (int slot = 0; slot < slots.num_parameter_slots(); ++slot) parameter_slots_free_.push_back(device.make_event());
  for (int slot = 0; slot < slots.num_gradient_slots(); ++slot) gradient_slots_free_.push_back(device.make_event());
}

device::RangeLabel ShardedUnits::label(const char* what, UnitIndex unit) const {
  return {.category = "unit", .what = what, .of = names().unit(unit).name};
}

device::Event& ShardedUnits::parameter_slot_free(UnitIndex unit) const {
  return *parameter_slots_free_[slots_.parameters[unit]];
}

device::Event& ShardedUnits::gradient_slot_free(UnitIndex unit) const {
  return *gradient_slots_free_[slots_.gradients[unit]];
}

void ShardedUnits::parameters_written() {
  for (const UnitIndex unit : names().unit_indices()) parameters_written(unit, backend_.stream());
}

void ShardedUnits::parameters_written(UnitIndex unit, device::Stream& stream) {
  state(unit).written->record(stream);
  state(unit).is_stale = true;
  fp8_.parameters_written(unit);
  dequantized_unit_.reset();
}

void ShardedUnits::refresh_compute_copy() {
  for (const UnitStorage& stored : storage_) {
    if (stored.part().is_in_file || stored.compute_copy().empty()) continue;
    backend_.run(ops::Copy{stored.compute_copy(), stored.parameters()});
  }
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
  if (uses_storage()) return;
  const bool once_a_step = !policy_.parameters;
  if (once_a_step && !unit_state.is_stale) return;
  unit_state.is_stale = false;
  const bool of_neighbours = unit_state.is_resharded && policy_.reshard == config::Reshard::to_groups;
  if (policy_.parameters) gather_stream_.wait(parameter_slot_free(unit));
  gather_stream_.wait(*unit_state.written);
  if (policy_.parameters_on_host && !of_neighbours) fetch(unit);
  if (!of_neighbours) fp8_.round(unit, *unit_state.written, gather_stream_);
  const comm::CallSubject subject(names().unit(unit).name);
  timed(device_.timeline(), gather_stream_, label("gather", unit), [&] {
    for (const PartIndex index : storage_.indices()) {
      const Part& p = part(index);
      const Tensor whole = buffers_.parameters(index, unit), shard = storage_[index].parameters_of(unit);
      if (shard.empty() || (!policy_.parameters && !p.is_sharded())) continue;
      if (of_neighbours) {
        const comm::Group& neighbours = group(p.groups.neighbours);
        collectives_.all_gather(neighbours, whole, buffers_.kept_parameters(index, unit), gather_stream_);
      } else {
        const comm::Group& shards = group(p.groups.gathers);
        const bool is_there = policy_.parameters_on_host;  // fetched
        const Tensor own = is_there   ? own_piece(whole, shard.num_elements(), shards)
                           : p.in_fp8 ? buffers_.codes(index, unit)
                                      : shard;
        collectives_.all_gather(shards, whole, own, gather_stream_);
      }
    }
  });
  if (!of_neighbours) fp8_.sent(unit, gather_stream_);
  unit_state.gather_done->record(gather_stream_);
}

void ShardedUnits::fetch(UnitIndex unit) {
  std::vector<transfer::Move> moves;
  for (const PartIndex index : storage_.indices()) {
    const Tensor shard = storage_[index].parameters_of(unit);
    if (shard.empty()) continue;
    const Tensor whole = buffers_.parameters(index, unit);
    moves.push_back({.place = static_cast<std::size_t>(unit * storage_.size() + index),
                     .memory = own_piece(whole, shard.num_elements(), group(part(index).groups.gathers))});
  }
  parameters_in_->reads_follow(parameter_slot_free(unit));
  parameters_in_->reads_follow(*state(unit).written);
  parameters_in_->read(0, moves);
  parameters_in_->finish(0, gather_stream_);
}

void ShardedUnits::use(UnitIndex unit) {
  order_.use(unit);
  if (uses_storage()) backend_.stream().wait(*state(unit).written);
  device::Event& gather_done = *state(unit).gather_done;
  const auto is_gathered = [&](const UnitStorage& stored) { return group(stored.part().groups.shards).size() > 1; };
  if (std::ranges::none_of(storage_, is_gathered)) {
    backend_.stream().wait(gather_done);  // nothing that a timeline should show
  } else {
    timed_wait(device_.timeline(), backend_.stream(), gather_done, "wait for gather", names().unit(unit).name);
  }
  read_four_bits(unit);
}

void ShardedUnits::read_four_bits(UnitIndex unit) {
  const auto is_in_four_bits = [&](const UnitStorage& stored) {
    return stored.part().four_bits && !stored.shard_map().unit(unit).parameters.empty();
  };
  if (dequantized_unit_ == unit || std::ranges::none_of(storage_, is_in_four_bits)) return;
  dequantized_unit_ = unit;
  for (const PartIndex index : storage_.indices()) {
    if (!is_in_four_bits(storage_[index])) continue;
    const Part& p = part(index);
    const Tensor records = buffers_.parameters(index, unit), elements = buffers_.dequantized(index, unit);
    const std::vector<Parameter>& matrices = p.shard_map.unit(unit).parameters;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const Parameter& m = matrices[i];
      const std::int64_t row_blocks = m.columns / four_bit_block, size = m.local_elements();
      if (size == 0) continue;  // another rank's expert
      backend_.run(ops::ReadFourBits{.out = elements.rows(m.unit_offset, size).view({m.local_rows, m.local_columns}),
                                     .records = records.rows(p.in_memory(m.unit_offset), p.in_memory(size)),
                                     .form = *p.four_bits,
                                     .nested = storage_[index].nested_scales(unit, static_cast<int>(i)),
                                     .first_block = m.row_begin * row_blocks + m.column_begin / four_bit_block,
                                     .row_blocks = row_blocks});
    }
  }
}

void ShardedUnits::release(UnitIndex unit) {
  state(unit).is_resharded = false;
  if (order_.release(unit) && policy_.parameters) parameter_slot_free(unit).record(backend_.stream());
}

void ShardedUnits::reshard(UnitIndex unit) {
  if (policy_.parameters && policy_.reshard == config::Reshard::to_groups) {
    for (const PartIndex index : storage_.indices()) {
      const Tensor kept = buffers_.kept_parameters(index, unit);
      if (kept.empty()) continue;
      const Tensor own =
          own_piece(buffers_.parameters(index, unit), kept.num_elements(), group(part(index).groups.neighbours));
      device_.copy(kept.data, own.data, own.size_bytes(), backend_.stream());
    }
  }
  release(unit);
  state(unit).is_resharded = true;
}

void ShardedUnits::reduce(UnitIndex unit) {
  order_.reduce(unit);
  UnitState& unit_state = state(unit);
  SFT_ENSURE(unit_state.reduces_left > 0, "a unit is reduced once a micro-batch");
  const bool is_last = --unit_state.reduces_left == 0;
  if (std::ranges::none_of(storage_, [&](const auto& stored) { return has_gradients(stored, unit); })) return;
  if (!policy_.gradients && !is_last) return;
  zero_untouched(unit);
  if (policy_.optimizer_state && !unit_state.has_sums) {
    for_each_gradient(unit, [&](PartIndex, const UnitStorage& stored) {
      const Tensor sums = stored.gradients_of(unit);
      device_.fill_zero(sums.data, sums.size_bytes(), backend_.stream());
    });
    unit_state.has_sums = true;
  }
  compute_done_->record(backend_.stream());
  comm_stream_.wait(*compute_done_);
  const comm::CallSubject subject(names().unit(unit).name);
  timed(device_.timeline(), comm_stream_, label("reduce", unit), [&] {
    if (policy_.optimizer_state) {
      for_each_gradient(unit, [&](PartIndex index, const UnitStorage& stored) {
        const Tensor whole = buffers_.gradients(index, unit), sums = stored.gradients_of(unit);
        collectives_.reduce_scatter_add(group(stored.part().groups.shards), sums, whole, comm_stream_,
                                        buffers_.wire(whole.num_elements()));
      });
    }
    if (policy_.gradients) {
      gradient_slot_free(unit).record(comm_stream_);
      unit_state.forget_gradients();
    }
    if (is_last) sum_replicas(unit);
  });
  if (is_last && gradient_queued_) gradient_queued_(unit);
}

template <class Visit>
void ShardedUnits::for_each_gradient(UnitIndex unit, const Visit& visit) const {
  for (const PartIndex index : storage_.indices()) {
    if (has_gradients(storage_[index], unit)) visit(index, storage_[index]);
  }
}

void ShardedUnits::sum_replicas(UnitIndex unit) {
  for_each_gradient(unit, [&](PartIndex, const UnitStorage& stored) {
    if (groups_.kv_replicas.size() > 1) {
      for (const Tensor& piece : gradient_pieces(stored, unit, TpSplit::kv_rows)) {
        collectives_.all_reduce(groups_.kv_replicas, piece, comm::ReduceOp::sum, comm_stream_);
      }
    }
    const comm::Group& replicas = group(stored.part().groups.replicas);
    if (replicas.size() > 1) {
      const Tensor sums = stored.gradients_of(unit);
      collectives_.all_reduce(replicas, sums, comm::ReduceOp::sum, comm_stream_, buffers_.wire(sums.num_elements()));
    }
  });
}

std::span<const Parameter> ShardedUnits::members_of(const ParameterGroup& group) const {
  const std::span parameters(part(group.part).shard_map.unit(group.unit).parameters);
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
  if (!part(group.part).four_bits) return slice(buffers_.parameters(group.part, group.unit), group);
  SFT_ENSURE(dequantized_unit_ == group.unit, "numbers in 4 bits are read in the unit that was entered last");
  return slice(buffers_.dequantized(group.part, group.unit), group);
}

GradientTarget ShardedUnits::gradient(const ParameterGroup& group) {
  SFT_ENSURE(has_gradient(group), "parameters whose gradient is written are in a part that has them");
  order_.write_gradient(group.unit);
  std::vector<bool>& touched = state(group.unit).touched[group.part];
  if (policy_.gradients) backend_.stream().wait(gradient_slot_free(group.unit));
  const bool accumulate = touched[group.first];
  const auto first = touched.begin() + group.first, end = first + group.count;
  SFT_ENSURE(std::count(first, end, accumulate) == group.count, "fused gradients are written together");
  std::fill(first, end, true);
  return {slice(buffers_.gradients(group.part, group.unit), group), accumulate};
}

Tensor ShardedUnits::accumulated_gradient(const ParameterGroup& group) {
  if (!has_gradient(group)) return {};
  const GradientTarget target = gradient(group);
  if (!target.accumulate) {
    device_.fill_zero(target.tensor.data, target.tensor.size_bytes(), backend_.stream());
  }
  return target.tensor;
}

void ShardedUnits::zero_untouched(UnitIndex unit) {
  if (policy_.gradients) backend_.stream().wait(gradient_slot_free(unit));
  for_each_gradient(unit, [&](PartIndex index, const UnitStorage& stored) {
    const auto zero = [&](std::int64_t begin, std::int64_t count) {
      const Tensor piece = buffers_.gradients(index, unit).rows(begin, count);
      device_.fill_zero(piece.data, piece.size_bytes(), backend_.stream());
    };
    const std::vector<Parameter>& parameters = stored.shard_map().unit(unit).parameters;
    const std::vector<bool>& touched = state(unit).touched[index];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!touched[i]) zero(parameters[i].unit_offset, parameters[i].local_elements());
    }
    for (const ShardRange& gap : stored.shard_map().padding_of_unit(unit)) zero(gap.begin, gap.count);
  });
}

void ShardedUnits::begin_step(std::int64_t num_micro_batches) {
  const bool has_one = num_micro_batches == 1;
  SFT_ENSURE(has_one || std::ranges::none_of(storage_, &UnitStorage::shares_gradients),
             "gradients that share memory are those of one micro-batch");
  wait_for_sums();  // of a step that was left unfinished, as are its gathers
  for (const UnitState& unit_state : units_) backend_.stream().wait(*unit_state.gather_done);
  for (UnitState& unit_state : units_) {
    unit_state.forget_gradients();
    unit_state.has_sums = false;
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
  for (const UnitIndex unit : names().unit_indices()) {
    for_each_gradient(unit, [&](PartIndex, const UnitStorage& stored) {
      for (const Tensor& piece : gradient_pieces(stored, unit, TpSplit::partial)) {
        collectives_.all_reduce(groups_.tp, piece, comm::ReduceOp::sum, backend_.stream());
      }
    });
  }
}

comm::StagingPlan ShardedUnits::staging(const StoredParts& storage, const ShardingPolicy& policy) {
  comm::StagingPlan plan;
  const auto add = [](std::size_t& most_bytes, std::int64_t num_elements) {
    most_bytes = std::max(most_bytes, checked_cast<std::size_t>(num_elements) * sizeof(float));
  };
  for (const UnitStorage& stored : storage) {
    if (!stored.part().has_gradient) continue;
    for (const Unit& unit : stored.shard_map().units()) {
      if (policy.optimizer_state) add(plan.max_reduce_scatter_bytes, unit.num_elements);
      add(plan.max_all_reduce_bytes, unit.shard_elements);
    }
  }
  return plan;
}

}  // namespace sft::parallel
