// SPDX-License-Identifier: Apache-2.0
#pragma once
// The global gradient norm, and clipping by it.

#include <algorithm>
#include <vector>

#include "sft/ops/backend.hpp"
#include "sft/parallel/unit_storage.hpp"

namespace sft::optim {

/// Factor of torch.nn.utils.clip_grad_norm_: min(1, max_norm / (norm + 1e-6)); 1 when max_norm is 0. Pure.
[[nodiscard]] inline double clipping_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

/// This rank's part of the norm. Each parameter counts on the rank that owns it (parallel::Parameter::is_owner), so
/// that the sum over all ranks is the square of the norm. Not collective.
class GradientNorm {
 public:
  explicit GradientNorm(const parallel::ShardMap& shard_map)
      : owned_(shard_map.ranges([](const parallel::Parameter& p) { return p.is_owner; })) {}

  /// result, float64 (1), += sum of squares of the gradients that this rank owns.
  void sum_squares(const parallel::UnitStorage& storage, ops::Backend& backend, Tensor result) const {
    for (const parallel::ShardRange& r : owned_) {
      backend.sum_squares(result, storage.gradients().rows(r.begin, r.count));
    }
  }

 private:
  std::vector<parallel::ShardRange> owned_;
};

}  // namespace sft::optim
