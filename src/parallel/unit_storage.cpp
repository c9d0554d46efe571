// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/unit_storage.hpp"

namespace sft::parallel {

void UnitStorage::lay_out(device::Arena& parameters, device::Arena& gradients) {
  const std::int64_t n = shard_map_.rank_shard_elements();
  parameters_ = take(parameters, DType::float32, {n});
  if (compute_ != DType::float32) compute_copy_ = take(parameters, compute_, {n});
  gradients_ = take(gradients, DType::float32, {n});
}

Tensor UnitStorage::part(const Tensor& rank_shard, int unit) const {
  const Unit& layout = shard_map_.unit(unit);
  return rank_shard.rows(layout.shard_offset, layout.shard_elements);
}

Tensor UnitStorage::parameters_of(int unit) const {
  return part(compute_copy_.empty() ? parameters_ : compute_copy_, unit);
}

Tensor UnitStorage::gradients_of(int unit) const { return part(gradients_, unit); }

}  // namespace sft::parallel
