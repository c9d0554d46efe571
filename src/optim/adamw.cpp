#include "sft/optim/adamw.hpp"

#include <algorithm>
#include <cmath>

namespace sft::optim {

using parallel::Parameter;
using parallel::ShardRange;

double clipping_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

ShardedAdamW::ShardedAdamW(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map,
                           parallel::ShardedUnits& units, ops::Backend& backend)
    : optimizer_(optimizer),
      units_(units),
      backend_(backend),
      counted_(shard_map.ranges([](const Parameter& p) { return p.is_owner; })),
      decayed_(shard_map.ranges([](const Parameter& p) { return !p.is_vector(); })),
      plain_(shard_map.ranges([](const Parameter& p) { return p.is_vector(); })) {}

void ShardedAdamW::sum_squares(Tensor result) {
  for (const ShardRange& r : counted_) backend_.sum_squares(result, units_.gradient_shard().rows(r.begin, r.count));
}

void ShardedAdamW::step(std::int64_t step, double learning_rate, double gradient_scale) {
  const auto update = [&](const std::vector<ShardRange>& ranges, double weight_decay) {
    const auto t = static_cast<double>(step);
    const ops::AdamW hyper{.learning_rate = learning_rate,
                           .beta1 = optimizer_.adam_beta1,
                           .beta2 = optimizer_.adam_beta2,
                           .epsilon = optimizer_.adam_epsilon,
                           .weight_decay = weight_decay,
                           .bias_correction1 = 1 - std::pow(optimizer_.adam_beta1, t),
                           .bias_correction2 = 1 - std::pow(optimizer_.adam_beta2, t),
                           .gradient_scale = gradient_scale};
    for (const ShardRange& r : ranges) {
      const Tensor copy = units_.compute_shard();
      backend_.adamw(units_.parameter_shard().rows(r.begin, r.count), units_.gradient_shard().rows(r.begin, r.count),
                     units_.exp_avg().rows(r.begin, r.count), units_.exp_avg_sq().rows(r.begin, r.count),
                     copy.empty() ? copy : copy.rows(r.begin, r.count), hyper);
    }
  };
  update(decayed_, optimizer_.weight_decay);
  update(plain_, 0.0);
  units_.parameters_written();
}

}  // namespace sft::optim
