// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_buffers.hpp"

#include <algorithm>

namespace sft::parallel {

namespace {

int num_slots(const std::vector<int>& slot_of_unit) {
  return 1 + *std::max_element(slot_of_unit.begin(), slot_of_unit.end());
}

/// A buffer for each slot, as long as the longest of its units; `unit_elements` tells their lengths.
std::vector<Tensor> take_slots(device::Arena& arena, const std::vector<std::int64_t>& unit_elements,
                               const std::vector<int>& slot_of_unit, DType dtype) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(num_slots(slot_of_unit)));
  for (std::size_t u = 0; u < slot_of_unit.size(); ++u) {
    std::int64_t& most = elements[static_cast<std::size_t>(slot_of_unit[u])];
    most = std::max(most, unit_elements[u]);
  }
  std::vector<Tensor> slots;
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

bool SlotAssignment::is_displaced(int unit) const {
  const auto self = parameters.begin() + unit;
  return std::find(self + 1, parameters.end(), *self) != parameters.end();
}

bool SlotAssignment::share_parameters(int unit, int other) const {
  return parameters[static_cast<std::size_t>(unit)] == parameters[static_cast<std::size_t>(other)];
}

void UnitBuffers::lay_out(const Arenas& arenas) {
  lay_out_parameters(arenas);
  lay_out_gradients(arenas);
  lay_out_kept(arenas.own);
}

void UnitBuffers::lay_out_parameters(const Arenas& arenas) {
  const std::vector<Unit>& trainable = storage_.trainable().units();
  const std::vector<Unit>& frozen = storage_.frozen().units();
  parameters_.clear();
  frozen_parameters_.clear();
  std::vector<Tensor> slots;
  if (policy_.parameters) {
    std::vector<std::int64_t> elements;
    for (std::size_t u = 0; u < trainable.size(); ++u) {
      elements.push_back(trainable[u].num_elements + frozen[u].num_elements);
    }
    const bool is_alike = policy_.reshard != config::Reshard::to_groups;  // else neighbours gather on their own
    slots = take_slots(is_alike ? arenas.gathered : arenas.own, elements, slots_.parameters, storage_.compute());
  }
  for (std::size_t u = 0; u < trainable.size(); ++u) {
    const auto unit = static_cast<int>(u);
    if (policy_.parameters) {
      const Tensor& slot = slots[static_cast<std::size_t>(slots_.parameters[u])];
      parameters_.push_back(slot.rows(0, trainable[u].num_elements));
      frozen_parameters_.push_back(slot.rows(trainable[u].num_elements, frozen[u].num_elements));
    } else {
      parameters_.push_back(policy_.optimizer_state
                                ? take(arenas.parameters, storage_.compute(), {trainable[u].num_elements})
                                : storage_.parameters_of(unit));
      frozen_parameters_.push_back(storage_.frozen_parameters_of(unit));
    }
  }
}

void UnitBuffers::lay_out_gradients(const Arenas& arenas) {
  const std::vector<Unit>& units = storage_.trainable().units();
  gradients_.clear();
  std::vector<Tensor> slots;
  if (policy_.gradients) {
    std::vector<std::int64_t> elements;
    for (const Unit& unit : units) elements.push_back(unit.num_elements);
    slots = take_slots(arenas.reduced, elements, slots_.gradients, DType::float32);
  }
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::int64_t n = units[u].num_elements;
    if (policy_.gradients) {
      gradients_.push_back(slots[static_cast<std::size_t>(slots_.gradients[u])].rows(0, n));
    } else {
      gradients_.push_back(policy_.optimizer_state ? take(arenas.gradients, DType::float32, {n})
                                                   : storage_.gradients_of(static_cast<int>(u)));
    }
  }
}

void UnitBuffers::lay_out_kept(device::Arena& arena) {
  const std::vector<Unit>& trainable = storage_.trainable().units();
  const std::vector<Unit>& frozen = storage_.frozen().units();
  kept_parameters_.assign(trainable.size(), {});
  kept_frozen_parameters_.assign(trainable.size(), {});
  if (!policy_.parameters || policy_.reshard != config::Reshard::to_groups) return;
  for (std::size_t u = 0; u < trainable.size(); ++u) {
    if (!slots_.is_displaced(static_cast<int>(u))) continue;  // stays where it is
    kept_parameters_[u] = take(arena, storage_.compute(), {trainable[u].num_elements / policy_.reshard_size});
    kept_frozen_parameters_[u] = take(arena, storage_.compute(), {frozen[u].num_elements / policy_.reshard_size});
  }
}

}  // namespace sft::parallel
