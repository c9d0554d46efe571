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
  explicit GradientNorm(const parallel::ShardMap& shard_map) : owned_(shard_map.ranges(is_owner)) {
    for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
      owned_of_.push_back(shard_map.ranges_of_unit(unit, is_owner));
    }
  }

  /// result, float64 (1), += sum of squares of the gradients that this rank owns.
  void sum_squares(const parallel::UnitStorage& storage, ops::Backend& backend, Tensor result) const {
    for (const parallel::ShardRange& r : owned_) {
      backend.sum_squares(result, storage.gradients().rows(r.begin, r.count));
    }
  }
  /// The same of one unit. All units together give what sum_squares does, but for the order of the sum.
  void sum_squares_of(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend,
                      Tensor result) const {
    for (const parallel::ShardRange& r : owned_of_[unit]) {
      backend.sum_squares(result, storage.gradients_at(r.begin, r.count));
    }
  }

 private:
  static bool is_owner(const parallel::Parameter& parameter) { return parameter.is_owner; }

  std::vector<parallel::ShardRange> owned_;
  IndexedVector<parallel::UnitIndex, std::vector<parallel::ShardRange>> owned_of_;
};

}  // namespace sft::optim
