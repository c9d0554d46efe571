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
/// that the sum over all ranks is the square of the norm. It is formed unit by unit in the order of a backward pass,
/// from the last to the first, beside the pass or behind it: the bits are the same. Not collective.
class GradientNorm {
 public:
  /// `sums_over_tp`: gradients of parameters that are TpSplit::partial are complete behind those of all units.
  explicit GradientNorm(const parallel::ShardMap& shard_map, bool sums_over_tp = false) {
    const auto is_late = [&](const parallel::Parameter& p) {
      return sums_over_tp && p.split == parallel::TpSplit::partial;
    };
    for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
      by_unit_.push_back(
          shard_map.ranges_of_unit(unit, [&](const parallel::Parameter& p) { return p.is_owner && !is_late(p); }));
      late_.push_back(
          shard_map.ranges_of_unit(unit, [&](const parallel::Parameter& p) { return p.is_owner && is_late(p); }));
    }
  }

  /// result, float64 (1), += sum of squares of the gradients that this rank owns.
  void sum_squares(const parallel::UnitStorage& storage, ops::Backend& backend, Tensor result) const {
    for (const parallel::UnitIndex unit : IndexRange<parallel::UnitIndex>::reversed(storage.shard_map().num_units())) {
      sum_squares_of(unit, storage, backend, result);
    }
    sum_late_squares(storage, backend, result);
  }
  /// The same of one unit, but for what is complete behind all units.
  void sum_squares_of(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend,
                      Tensor result) const {
    add(by_unit_[unit], storage, backend, result);
  }
  /// The rest: of what is complete behind all units. Nothing without sums over tp.
  void sum_late_squares(const parallel::UnitStorage& storage, ops::Backend& backend, Tensor result) const {
    for (const parallel::UnitIndex unit : IndexRange<parallel::UnitIndex>::reversed(storage.shard_map().num_units())) {
      add(late_[unit], storage, backend, result);
    }
  }

 private:
  using Ranges = std::vector<parallel::ShardRange>;

  static void add(const Ranges& ranges, const parallel::UnitStorage& storage, ops::Backend& backend, Tensor result) {
    for (const parallel::ShardRange& r : ranges)
      backend.run(ops::SumSquares{result, storage.gradients_at(r.begin, r.count)});
  }

  IndexedVector<parallel::UnitIndex, Ranges> by_unit_, late_;
};

}  // namespace sft::optim
