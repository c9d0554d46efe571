#pragma once
// AdamW and gradient clipping on this rank's shard.

#include <cstdint>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/parallel/sharded_units.hpp"

namespace sft::optim {

/// Factor of torch.nn.utils.clip_grad_norm_: min(1, max_norm / (norm + 1e-6)); 1 when max_norm is 0. Pure.
[[nodiscard]] double clipping_factor(double norm, double max_norm);

/// torch.optim.AdamW over the rank shard: decay on matrices only. Not collective.
class ShardedAdamW {
 public:
  /// References outlive it; `units` is laid out before the first call.
  ShardedAdamW(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map, parallel::ShardedUnits& units,
               ops::Backend& backend);

  /// result, float64 (1), += sum of squares of this rank's gradients, each
  /// parameter on the rank that owns it alone (ShardMap).
  void sum_squares(Tensor result);
  /// Step `step` (1-based) with gradients scaled by `gradient_scale`; parameters, moments and the bf16 copy change.
  void step(std::int64_t step, double learning_rate, double gradient_scale);

 private:
  const config::Optimizer& optimizer_;
  parallel::ShardedUnits& units_;
  ops::Backend& backend_;
  std::vector<parallel::ShardRange> counted_, decayed_, plain_;
};

}  // namespace sft::optim
