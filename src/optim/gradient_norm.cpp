// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/gradient_norm.hpp"

#include <algorithm>

namespace sft::optim {

double clipping_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

GradientNorm::GradientNorm(const parallel::ShardMap& shard_map)
    : owned_(shard_map.ranges([](const parallel::Parameter& p) { return p.is_owner; })) {}

void GradientNorm::sum_squares(const parallel::UnitStorage& storage, ops::Backend& backend, Tensor result) const {
  for (const parallel::ShardRange& r : owned_) {
    backend.sum_squares(result, storage.gradients().rows(r.begin, r.count));
  }
}

}  // namespace sft::optim
