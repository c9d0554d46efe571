// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_buffers.hpp"

#include <algorithm>

namespace sft::parallel {

namespace {

int num_slots(const std::vector<int>& slot_of_unit) {
  return 1 + *std::max_element(slot_of_unit.begin(), slot_of_unit.end());
}

/// A buffer for each slot, as long as its longest unit; then each unit's part of its slot.
std::vector<Tensor> take_slots(device::Arena& arena, const ShardMap& shard_map, const std::vector<int>& slot_of_unit,
                               DType dtype) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(num_slots(slot_of_unit)));
  for (std::size_t u = 0; u < slot_of_unit.size(); ++u) {
    std::int64_t& most = elements[static_cast<std::size_t>(slot_of_unit[u])];
    most = std::max(most, shard_map.units()[u].num_elements);
  }
  std::vector<Tensor> slots;
  for (const std::int64_t n : elements) slots.push_back(take(arena, dtype, {n}));
  std::vector<Tensor> units;
  for (std::size_t u = 0; u < slot_of_unit.size(); ++u) {
    units.push_back(slots[static_cast<std::size_t>(slot_of_unit[u])].rows(0, shard_map.units()[u].num_elements));
  }
  return units;
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
  const ShardMap& shard_map = storage_.shard_map();
  parameters_.clear();
  gradients_.clear();
  if (policy_.parameters) parameters_ = take_slots(arena, shard_map, slots_.parameters, storage_.compute());
  if (policy_.gradients) gradients_ = take_slots(arena, shard_map, slots_.gradients, DType::float32);
  for (int u = 0; u < static_cast<int>(shard_map.units().size()); ++u) {
    if (!policy_.parameters) parameters_.push_back(storage_.parameters_of(u));
    if (!policy_.gradients) gradients_.push_back(storage_.gradients_of(u));
  }
}

}  // namespace sft::parallel
