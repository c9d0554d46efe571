// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_storage.hpp"

namespace sft::parallel {

namespace {

Tensor part(const Tensor& rank_shard, const Unit& unit) {
  return rank_shard.rows(unit.shard_offset, unit.shard_elements);
}

}  // namespace

void UnitStorage::lay_out(device::Arena& master, device::Arena& parameters, device::Arena& gradients) {
  const std::int64_t n = trainable_.rank_shard_elements();
  const DType stored = master_ == MasterWeights::none ? compute_ : DType::float32;
  const bool has_copy = stored != compute_;
  if (master_ != MasterWeights::in_file) parameters_ = take(has_copy ? master : parameters, stored, {n});
  if (has_copy) compute_copy_ = take(parameters, compute_, {n});
  frozen_parameters_ = take(parameters, compute_, {frozen_.rank_shard_elements()});
  gradients_ = take(gradients, DType::float32, {n});
}

Tensor UnitStorage::parameters_of(UnitIndex unit) const {
  return part(compute_copy_.ndim > 0 ? compute_copy_ : parameters_, trainable_.unit(unit));
}

Tensor UnitStorage::frozen_parameters_of(UnitIndex unit) const { return part(frozen_parameters_, frozen_.unit(unit)); }

Tensor UnitStorage::gradients_of(UnitIndex unit) const { return part(gradients_, trainable_.unit(unit)); }

}  // namespace sft::parallel
