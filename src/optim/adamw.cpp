// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/adamw.hpp"

#include <cmath>

namespace sft::optim {

using parallel::Parameter;
using parallel::ShardRange;

AdamW::AdamW(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map)
    : optimizer_(optimizer), shard_map_(shard_map) {
  for (int unit = 0; unit < shard_map.num_units(); ++unit) {
    units_.push_back({shard_map.ranges_of_unit(unit, [](const Parameter& p) { return !p.is_vector(); }),
                      shard_map.ranges_of_unit(unit, [](const Parameter& p) { return p.is_vector(); })});
  }
}

void AdamW::lay_out(device::Arena& arena) {
  exp_avg_ = take(arena, DType::float32, {shard_map_.rank_shard_elements()});
  exp_avg_sq_ = take(arena, DType::float32, {shard_map_.rank_shard_elements()});
}

void AdamW::step(const parallel::UnitStorage& storage, ops::Backend& backend, std::int64_t step, double learning_rate,
                 double gradient_scale) const {
  const auto t = static_cast<double>(step);
  const ops::AdamW hyper{.learning_rate = learning_rate,
                         .beta1 = optimizer_.adam_beta1,
                         .beta2 = optimizer_.adam_beta2,
                         .epsilon = optimizer_.adam_epsilon,
                         .weight_decay = optimizer_.weight_decay,
                         .bias_correction1 = 1 - std::pow(optimizer_.adam_beta1, t),
                         .bias_correction2 = 1 - std::pow(optimizer_.adam_beta2, t),
                         .gradient_scale = gradient_scale};
  for (const UnitRanges& unit : units_) step_unit(unit, storage, backend, hyper);
}

void AdamW::step_unit(const UnitRanges& unit, const parallel::UnitStorage& storage, ops::Backend& backend,
                      const ops::AdamW& hyper) const {
  const Tensor copy = storage.compute_copy();
  const auto update = [&](const std::vector<ShardRange>& ranges, const ops::AdamW& with) {
    for (const ShardRange& r : ranges) {
      backend.adamw(storage.parameters().rows(r.begin, r.count), storage.gradients().rows(r.begin, r.count),
                    exp_avg_.rows(r.begin, r.count), exp_avg_sq_.rows(r.begin, r.count),
                    copy.empty() ? copy : copy.rows(r.begin, r.count), with);
    }
  };
  ops::AdamW without_decay = hyper;
  without_decay.weight_decay = 0.0;
  update(unit.decayed, hyper);
  update(unit.plain, without_decay);
}

}  // namespace sft::optim
