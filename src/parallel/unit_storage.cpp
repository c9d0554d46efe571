// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_storage.hpp"

namespace sft::parallel {

namespace {

Tensor shard_of(const Unit& unit, const Tensor& rank_shard) {
  return rank_shard.rows(unit.shard_offset, unit.shard_elements);
}

}  // namespace

void UnitStorage::lay_out(device::Arena& master, device::Arena& parameters, device::Arena& gradients) {
  const std::int64_t n = shard_map().rank_shard_elements();
  if (!part_.is_in_file) parameters_ = take(part_.has_copy() ? master : parameters, part_.stored, {n});
  if (part_.has_copy()) compute_copy_ = take(parameters, part_.gathered, {n});
  if (part_.has_gradient) gradients_ = take(gradients, DType::float32, {n});
}

Tensor UnitStorage::parameters_of(UnitIndex unit) const {
  return shard_of(shard_map().unit(unit), part_.has_copy() ? compute_copy_ : parameters_);
}

Tensor UnitStorage::gradients_of(UnitIndex unit) const { return shard_of(shard_map().unit(unit), gradients_); }

StoredParts storage_of(IndexedVector<PartIndex, Part> parts) {
  StoredParts stored;
  for (Part& part : parts) stored.push_back(UnitStorage(std::move(part)));
  return stored;
}

}  // namespace sft::parallel
