// SPDX-License-Identifier: Apache-2.0
#pragma once
// AdamW on the rank shard. It owns its state, the two moments.

#include <cstdint>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/device/arena.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/unit_storage.hpp"

namespace sft::optim {

/// torch.optim.AdamW (Loshchilov & Hutter 2019) over the rank shard; only matrices decay. Nothing here is collective.
/// Everything but step() is pure: planning lays it out without a device.
class AdamW {
 public:
  /// References outlive it.
  AdamW(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map);

  /// Takes the moments from `arena`; call with a sizing arena, then with a real one.
  void lay_out(device::Arena& arena);

  // float32 (rank_shard_elements), cut as the parameters are.
  [[nodiscard]] Tensor exp_avg() const { return exp_avg_; }
  [[nodiscard]] Tensor exp_avg_sq() const { return exp_avg_sq_; }

  /// Step `step` (1-based) of all units, one after the other, with gradients scaled by `gradient_scale`; parameters,
  /// moments and the low-precision copy change.
  void step(const parallel::UnitStorage& storage, ops::Backend& backend, std::int64_t step, double learning_rate,
            double gradient_scale) const;

 private:
  /// Parts of the rank shard that belong to one unit.
  struct UnitRanges {
    std::vector<parallel::ShardRange> decayed, plain;
  };
  void step_unit(const UnitRanges& unit, const parallel::UnitStorage& storage, ops::Backend& backend,
                 const ops::AdamW& hyper) const;

  const config::Optimizer& optimizer_;
  const parallel::ShardMap& shard_map_;
  std::vector<UnitRanges> units_;
  Tensor exp_avg_, exp_avg_sq_;
};

}  // namespace sft::optim
