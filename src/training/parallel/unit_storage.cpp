// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_storage.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"

namespace sft::parallel {

namespace {

Tensor shard_of(const Part& part, UnitIndex index, const Tensor& rank_shard) {
  const Unit& unit = part.shard_map.unit(index);
  return rank_shard.rows(part.in_memory(unit.shard_offset), part.in_memory(unit.shard_elements));
}

}  // namespace

void UnitStorage::lay_out(device::Arena& master, device::Arena& parameters, device::Arena& gradients,
                          const IndexedVector<UnitIndex, SlotIndex>* gradient_slots) {
  const std::int64_t n = shard_map().rank_shard_elements();
  if (!part_.is_in_file) {
    parameters_ = take(part_.has_copy() ? master : parameters, part_.stored, {part_.in_memory(n)});
  }
  if (part_.has_copy()) compute_copy_ = take(parameters, part_.gathered, {n});
  if (part_.has_gradient) lay_out_gradients(gradients, gradient_slots);
}

void UnitStorage::lay_out_gradients(device::Arena& arena, const IndexedVector<UnitIndex, SlotIndex>* slots) {
  shares_gradients_ = slots != nullptr;
  gradients_of_.clear();
  if (!shares_gradients_) {
    gradients_ = take(arena, DType::float32, {shard_map().rank_shard_elements()});
    for (const UnitIndex unit : shard_map().unit_indices()) {
      gradients_of_.push_back(shard_of(part_, unit, gradients_));
    }
    return;
  }
  IndexedVector<SlotIndex, std::int64_t> most(1 + *std::max_element(slots->begin(), slots->end()));
  for (const UnitIndex unit : slots->indices()) {
    most[(*slots)[unit]] = std::max(most[(*slots)[unit]], shard_map().unit(unit).shard_elements);
  }
  IndexedVector<SlotIndex, Tensor> memory;
  for (const std::int64_t n : most) memory.push_back(take(arena, DType::float32, {n}));
  for (const UnitIndex unit : slots->indices()) {
    gradients_of_.push_back(memory[(*slots)[unit]].rows(0, shard_map().unit(unit).shard_elements));
  }
}

Tensor UnitStorage::gradients() const {
  SFT_ENSURE(!shares_gradients_, "gradients that share memory are there unit by unit");
  return gradients_;
}

Tensor UnitStorage::gradients_at(std::int64_t begin, std::int64_t count) const {
  const auto& units = shard_map().units();
  const auto behind = std::ranges::upper_bound(units, begin, {}, &Unit::shard_offset);
  const auto unit = UnitIndex::from(static_cast<int>(behind - units.begin()) - 1);
  return gradients_of_[unit].rows(begin - shard_map().unit(unit).shard_offset, count);
}

void UnitStorage::lay_out_nested_scales(device::Arena& arena) {
  if (!part_.four_bits || !part_.four_bits->is_nested) return;
  std::int64_t num_nested = 0;
  first_nested_.clear();
  for (const Unit& unit : shard_map().units()) {
    std::vector<std::int64_t> firsts;
    for (const Parameter& p : unit.parameters) {
      firsts.push_back(num_nested);
      if (p.local_elements() > 0) num_nested += part_.four_bits->num_nested(p.elements());
    }
    firsts.push_back(num_nested);
    first_nested_.push_back(std::move(firsts));
  }
  nested_ = take(arena, DType::float32, {num_nested});
}

Tensor UnitStorage::nested_scales(UnitIndex unit, int parameter) const {
  if (first_nested_.size() == 0) return {};
  const std::int64_t begin = first_nested_[unit][parameter];
  return nested_.rows(begin, first_nested_[unit][parameter + 1] - begin);
}

Tensor UnitStorage::parameters_of(UnitIndex unit) const {
  return shard_of(part_, unit, part_.has_copy() ? compute_copy_ : parameters_);
}

Tensor UnitStorage::gradients_of(UnitIndex unit) const { return gradients_of_[unit]; }

StoredParts storage_of(IndexedVector<PartIndex, Part> parts) {
  StoredParts stored;
  for (Part& part : parts) stored.push_back(UnitStorage(std::move(part)));
  return stored;
}

}  // namespace sft::parallel
