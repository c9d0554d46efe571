// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_buffers.hpp"

#include <algorithm>
#include <functional>

#include "sft/core/cast.hpp"
#include "sft/parallel/fp8_gathers.hpp"

namespace sft::parallel {

namespace {

using Slots = IndexedVector<UnitIndex, SlotIndex>;

int num_slots(const Slots& slot_of_unit) { return 1 + *std::max_element(slot_of_unit.begin(), slot_of_unit.end()); }

/// A buffer for each slot, as long as the longest of its units; `unit_bytes` tells their lengths. Its dtype is uint8:
/// the parts of a unit may have different ones.
IndexedVector<SlotIndex, Tensor> take_slots(device::Arena& arena, const Slots& slot_of_unit,
                                            const std::function<std::size_t(UnitIndex)>& unit_bytes) {
  IndexedVector<SlotIndex, std::size_t> bytes(num_slots(slot_of_unit));
  for (const UnitIndex unit : slot_of_unit.indices()) {
    std::size_t& most = bytes[slot_of_unit[unit]];
    most = std::max(most, unit_bytes(unit));
  }
  IndexedVector<SlotIndex, Tensor> slots;
  for (const std::size_t n : bytes) slots.push_back(take(arena, DType::uint8, {checked_cast<std::int64_t>(n)}));
  return slots;
}

/// Cuts the tensors of one unit out of its slot, one after the other.
class SlotCutter {
 public:
  explicit SlotCutter(const Tensor& slot) : rest_(slot) {}

  Tensor next(DType dtype, std::int64_t num_elements) {
    const std::int64_t bytes = num_elements * checked_cast<std::int64_t>(size_of(dtype));
    const Tensor cut(rest_.rows(0, bytes).data, dtype, {num_elements});
    rest_ = rest_.rows(bytes, rest_.num_elements() - bytes);
    return cut;
  }

 private:
  Tensor rest_;
};

bool has_part(const StoredParts& storage, bool of_experts) {
  return std::ranges::any_of(storage,
                             [=](const UnitStorage& stored) { return stored.part().of_experts == of_experts; });
}

std::int64_t num_elements(const UnitStorage& stored, UnitIndex unit) {
  return stored.shard_map().unit(unit).num_elements;
}

/// Numbers of Part::sent.
std::int64_t num_sent(const UnitStorage& stored, UnitIndex unit) {
  return stored.part().in_memory(num_elements(stored, unit));
}

}  // namespace

SlotAssignment::SlotAssignment(int num_units, const ShardingPolicy& policy, bool tied) {
  const int last = num_units - 1;
  const int head_slot = tied ? 3 : 0;
  for (int u = 0; u <= last; ++u) {
    const int slot = u == 0 ? 0 : u == last ? head_slot : 1 + u % 2;
    gradients.push_back(SlotIndex::from(slot));
    parameters.push_back(SlotIndex::from(policy.reshard == config::Reshard::never ? u : slot));
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

void UnitBuffers::lay_out(const Arenas& arenas, const Arenas& of_experts) {
  parts_.clear();
  for ([[maybe_unused]] const UnitStorage& stored : storage_) parts_.push_back({});
  lay_out_parameters(arenas, false);
  lay_out_parameters(of_experts, true);
  lay_out_gradients(arenas, false);
  lay_out_gradients(of_experts, true);
  lay_out_kept(arenas.own);
  lay_out_dequantized(arenas.own);
  lay_out_codes(arenas.own);
  lay_out_wire(arenas.own);
}

void UnitBuffers::lay_out_parameters(const Arenas& arenas, bool of_experts) {
  if (!has_part(storage_, of_experts)) return;
  IndexedVector<SlotIndex, Tensor> slots;
  if (policy_.parameters) {
    const bool is_alike = policy_.reshard != config::Reshard::to_groups;  // else neighbours gather on their own
    slots = take_slots(is_alike ? arenas.gathered : arenas.own, slots_.parameters, [&](UnitIndex unit) {
      std::size_t bytes = 0;
      for (const UnitStorage& stored : storage_) {
        if (stored.part().of_experts == of_experts) {
          bytes += checked_cast<std::size_t>(num_sent(stored, unit)) * size_of(stored.part().sent());
        }
      }
      return bytes;
    });
  }
  for (const UnitIndex unit : slots_.parameters.indices()) {
    SlotCutter slot(policy_.parameters ? slots[slots_.parameters[unit]] : Tensor());
    for (const PartIndex part : storage_.indices()) {
      const UnitStorage& stored = storage_[part];
      if (stored.part().of_experts != of_experts) continue;
      const std::int64_t n = num_sent(stored, unit);
      const DType dtype = stored.part().sent();
      parts_[part].parameters.push_back(policy_.parameters           ? slot.next(dtype, n)
                                        : stored.part().is_sharded() ? take(arenas.parameters, dtype, {n})
                                                                     : stored.parameters_of(unit));
    }
  }
}

void UnitBuffers::lay_out_gradients(const Arenas& arenas, bool of_experts) {
  if (!has_part(storage_, of_experts)) return;
  IndexedVector<SlotIndex, Tensor> slots;
  if (policy_.gradients) {
    slots = take_slots(arenas.reduced, slots_.gradients, [&](UnitIndex unit) {
      std::size_t bytes = 0;
      for (const UnitStorage& stored : storage_) {
        const Part& part = stored.part();
        if (!part.has_gradient || part.of_experts != of_experts) continue;
        bytes += checked_cast<std::size_t>(num_elements(stored, unit)) * sizeof(float);
      }
      return bytes;
    });
  }
  for (const UnitIndex unit : slots_.gradients.indices()) {
    SlotCutter slot(policy_.gradients ? slots[slots_.gradients[unit]] : Tensor());
    for (const PartIndex part : storage_.indices()) {
      const UnitStorage& stored = storage_[part];
      if (!stored.part().has_gradient || stored.part().of_experts != of_experts) continue;
      const std::int64_t n = stored.shard_map().unit(unit).num_elements;
      parts_[part].gradients.push_back(policy_.gradients            ? slot.next(DType::float32, n)
                                       : stored.part().is_sharded() ? take(arenas.gradients, DType::float32, {n})
                                                                    : stored.gradients_of(unit));
    }
  }
}

void UnitBuffers::lay_out_kept(device::Arena& arena) {
  const bool keeps_parts = policy_.parameters && policy_.reshard == config::Reshard::to_groups;
  for (const UnitIndex unit : slots_.parameters.indices()) {
    const bool is_kept = keeps_parts && slots_.is_displaced(unit);  // else it stays where it is
    for (const PartIndex part : storage_.indices()) {
      const UnitStorage& stored = storage_[part];
      const std::int64_t n = num_sent(stored, unit) / policy_.reshard_size;
      parts_[part].kept.push_back(is_kept ? take(arena, stored.part().sent(), {n}) : Tensor());
    }
  }
}

void UnitBuffers::lay_out_dequantized(device::Arena& arena) {
  for (const PartIndex part : storage_.indices()) {
    const UnitStorage& stored = storage_[part];
    if (!stored.part().four_bits) continue;
    std::int64_t most = 0;
    for (const UnitIndex unit : stored.shard_map().unit_indices()) most = std::max(most, num_elements(stored, unit));
    parts_[part].dequantized = take(arena, stored.part().gathered, {most});
  }
}

void UnitBuffers::lay_out_codes(device::Arena& arena) {
  const auto for_each_code = [&](const auto& visit) {  // visit(part, unit, where its codes begin, how many)
    for (const UnitIndex unit : slots_.parameters.indices()) {
      std::int64_t begin = 0;
      for (const PartIndex part : storage_.indices()) {
        if (!storage_[part].part().in_fp8) continue;
        const std::int64_t count = storage_[part].shard_map().unit(unit).shard_elements;
        visit(part, unit, begin, count);
        begin += count;
      }
    }
  };
  std::int64_t most = 0;
  for_each_code([&](PartIndex, UnitIndex, std::int64_t begin, std::int64_t n) { most = std::max(most, begin + n); });
  if (most == 0) return;
  const Tensor memory = take(arena, DType::uint8, {most});
  for_each_code([&](PartIndex part, UnitIndex unit, std::int64_t begin, std::int64_t count) {
    parts_[part].codes.push_back(memory.rows(begin, count));
    std::int64_t num_scales = 0;
    for (const UnitMatrix& matrix : matrices_of(storage_[part].shard_map().unit(unit))) {
      num_scales += matrix.num_scales(*storage_[part].part().in_fp8);
    }
    parts_[part].scales.push_back(num_scales > 0 ? take(arena, DType::float32, {num_scales}) : Tensor());
  });
}

void UnitBuffers::lay_out_wire(device::Arena& arena) {
  wire_ = {};
  if (policy_.reduced == DType::float32) return;
  std::int64_t most = 0;
  for (const UnitStorage& stored : storage_) {
    if (!stored.part().has_gradient) continue;
    for (const Unit& unit : stored.shard_map().units()) {
      most = std::max(most, policy_.optimizer_state ? unit.num_elements : unit.shard_elements);
    }
  }
  wire_ = take(arena, policy_.reduced, {most});
}

}  // namespace sft::parallel
