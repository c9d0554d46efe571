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

SlotAssignment::SlotAssignment(int num_units, bool reshard_after_forward, bool tied) {
  const int last = num_units - 1;
  const int head_slot = tied ? 3 : 0;
  for (int u = 0; u <= last; ++u) {
    const int slot = u == 0 ? 0 : u == last ? head_slot : 1 + u % 2;
    gradients.push_back(slot);
    parameters.push_back(reshard_after_forward ? slot : u);
  }
}

int SlotAssignment::num_parameter_slots() const { return num_slots(parameters); }
int SlotAssignment::num_gradient_slots() const { return num_slots(gradients); }

void UnitBuffers::lay_out(device::Arena& arena) {
  const std::vector<Unit>& trainable = storage_.trainable().units();
  const std::vector<Unit>& frozen = storage_.frozen().units();
  std::vector<std::int64_t> parameter_elements, gradient_elements;
  for (std::size_t u = 0; u < trainable.size(); ++u) {
    parameter_elements.push_back(trainable[u].num_elements + frozen[u].num_elements);
    gradient_elements.push_back(trainable[u].num_elements);
  }
  std::vector<Tensor> parameter_slots, gradient_slots;
  if (policy_.parameters) {
    parameter_slots = take_slots(arena, parameter_elements, slots_.parameters, storage_.compute());
  }
  if (policy_.gradients) gradient_slots = take_slots(arena, gradient_elements, slots_.gradients, DType::float32);

  parameters_.clear();
  frozen_parameters_.clear();
  gradients_.clear();
  for (std::size_t u = 0; u < trainable.size(); ++u) {
    const auto unit = static_cast<int>(u);
    if (policy_.parameters) {
      const Tensor& slot = parameter_slots[static_cast<std::size_t>(slots_.parameters[u])];
      parameters_.push_back(slot.rows(0, trainable[u].num_elements));
      frozen_parameters_.push_back(slot.rows(trainable[u].num_elements, frozen[u].num_elements));
    } else {
      parameters_.push_back(storage_.parameters_of(unit));
      frozen_parameters_.push_back(storage_.frozen_parameters_of(unit));
    }
    gradients_.push_back(policy_.gradients ? gradient_slots[static_cast<std::size_t>(slots_.gradients[u])].rows(
                                                 0, trainable[u].num_elements)
                                           : storage_.gradients_of(unit));
  }
}

}  // namespace sft::parallel
