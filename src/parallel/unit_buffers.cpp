// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_buffers.hpp"

#include <algorithm>
#include <functional>

namespace sft::parallel {

namespace {

using Slots = IndexedVector<UnitIndex, SlotIndex>;

int num_slots(const Slots& slot_of_unit) { return 1 + *std::max_element(slot_of_unit.begin(), slot_of_unit.end()); }

/// A buffer for each slot, as long as the longest of its units; `unit_elements` tells their lengths.
IndexedVector<SlotIndex, Tensor> take_slots(device::Arena& arena, const Slots& slot_of_unit, DType dtype,
                                            const std::function<std::int64_t(UnitIndex)>& unit_elements) {
  IndexedVector<SlotIndex, std::int64_t> elements(num_slots(slot_of_unit));
  for (UnitIndex unit = 0; unit < slot_of_unit.size(); ++unit) {
    std::int64_t& most = elements[slot_of_unit[unit]];
    most = std::max(most, unit_elements(unit));
  }
  IndexedVector<SlotIndex, Tensor> slots;
  for (const std::int64_t n : elements) slots.push_back(take(arena, dtype, {n}));
  return slots;
}

}  // namespace

SlotAssignment::SlotAssignment(int num_units, const ShardingPolicy& policy, bool tied) {
  const int last = num_units - 1;
  const int head_slot = tied ? 3 : 0;
  for (int u = 0; u <= last; ++u) {
    const int slot = u == 0 ? 0 : u == last ? head_slot : 1 + u % 2;
    gradients.push_back(slot);
    parameters.push_back(policy.reshard == config::Reshard::never ? u : slot);
  }
}

int SlotAssignment::num_parameter_slots() const { return num_slots(parameters); }
int SlotAssignment::num_gradient_slots() const { return num_slots(gradients); }

bool SlotAssignment::is_displaced(UnitIndex unit) const {
  const auto self = parameters.begin() + unit;
  return std::find(self + 1, parameters.end(), *self) != parameters.end();
}

bool SlotAssignment::share_parameters(UnitIndex unit, UnitIndex other) const {
  return parameters[unit] == parameters[other];
}

void UnitBuffers::lay_out(const Arenas& arenas) {
  lay_out_parameters(arenas);
  lay_out_gradients(arenas);
  lay_out_kept(arenas.own);
}

void UnitBuffers::lay_out_parameters(const Arenas& arenas) {
  const ShardMap &trainable = storage_.trainable(), &frozen = storage_.frozen();
  parameters_.clear();
  frozen_parameters_.clear();
  IndexedVector<SlotIndex, Tensor> slots;
  if (policy_.parameters) {
    const bool is_alike = policy_.reshard != config::Reshard::to_groups;  // else neighbours gather on their own
    slots = take_slots(is_alike ? arenas.gathered : arenas.own, slots_.parameters, storage_.compute(),
                       [&](UnitIndex u) { return trainable.unit(u).num_elements + frozen.unit(u).num_elements; });
  }
  for (UnitIndex unit = 0; unit < trainable.num_units(); ++unit) {
    const std::int64_t n = trainable.unit(unit).num_elements;
    if (policy_.parameters) {
      const Tensor& slot = slots[slots_.parameters[unit]];
      parameters_.push_back(slot.rows(0, n));
      frozen_parameters_.push_back(slot.rows(n, frozen.unit(unit).num_elements));
    } else {
      parameters_.push_back(policy_.optimizer_state ? take(arenas.parameters, storage_.compute(), {n})
                                                    : storage_.parameters_of(unit));
      frozen_parameters_.push_back(storage_.frozen_parameters_of(unit));
    }
  }
}

void UnitBuffers::lay_out_gradients(const Arenas& arenas) {
  const ShardMap& map = storage_.trainable();
  gradients_.clear();
  IndexedVector<SlotIndex, Tensor> slots;
  if (policy_.gradients) {
    slots = take_slots(arenas.reduced, slots_.gradients, DType::float32,
                       [&](UnitIndex unit) { return map.unit(unit).num_elements; });
  }
  for (UnitIndex unit = 0; unit < map.num_units(); ++unit) {
    const std::int64_t n = map.unit(unit).num_elements;
    if (policy_.gradients) {
      gradients_.push_back(slots[slots_.gradients[unit]].rows(0, n));
    } else {
      gradients_.push_back(policy_.optimizer_state ? take(arenas.gradients, DType::float32, {n})
                                                   : storage_.gradients_of(unit));
    }
  }
}

void UnitBuffers::lay_out_kept(device::Arena& arena) {
  const ShardMap &trainable = storage_.trainable(), &frozen = storage_.frozen();
  kept_parameters_.clear();
  kept_frozen_parameters_.clear();
  const bool keeps_parts = policy_.parameters && policy_.reshard == config::Reshard::to_groups;
  for (UnitIndex unit = 0; unit < trainable.num_units(); ++unit) {
    const bool is_kept = keeps_parts && slots_.is_displaced(unit);  // else it stays where it is
    const auto part = [&](const ShardMap& map) {
      return is_kept ? take(arena, storage_.compute(), {map.unit(unit).num_elements / policy_.reshard_size}) : Tensor();
    };
    kept_parameters_.push_back(part(trainable));
    kept_frozen_parameters_.push_back(part(frozen));
  }
}

}  // namespace sft::parallel
