// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/optimizer.hpp"

#include <cmath>

#include "elementwise.hpp"
#include "sft/core/error.hpp"

namespace sft::optim {

namespace {

ElementwiseRule rule_of(const config::Optimizer& o) {
  using config::OptimizerKind;
  switch (o.optim) {
    case OptimizerKind::adamw_torch:
      return {{"exp_avg", "exp_avg_sq"}, [o](std::int64_t step, double learning_rate, double weight_decay) {
                const auto t = static_cast<double>(step);
                return ops::AdamW{.learning_rate = learning_rate,
                                  .beta1 = o.adam_beta1,
                                  .beta2 = o.adam_beta2,
                                  .epsilon = o.adam_epsilon,
                                  .weight_decay = weight_decay,
                                  .bias_correction1 = 1 - std::pow(o.adam_beta1, t),
                                  .bias_correction2 = 1 - std::pow(o.adam_beta2, t)};
              }};
    case OptimizerKind::lion:
      return {{"exp_avg"}, [o](std::int64_t, double learning_rate, double weight_decay) {
                return ops::Lion{learning_rate, o.adam_beta1, o.adam_beta2, weight_decay};
              }};
    case OptimizerKind::sgd:
      return {{}, [](std::int64_t, double learning_rate, double weight_decay) {
                return ops::Sgd{learning_rate, weight_decay};
              }};
  }
  throw std::logic_error("an optimizer that is not there");
}

}  // namespace

StateForm state_form(const config::ValidConfig& config, device::Kind kind) {
  const auto place = [kind](config::Offload offload) {
    if (offload == config::Offload::nvme) return StatePlace::file;
    return offload == config::Offload::host && kind == device::Kind::cuda ? StatePlace::host : StatePlace::device;
  };
  return {.moments = config->optimizer.moments_dtype,
          .moments_place = place(config->train.offload_optimizer),
          .master_place = place(config->train.offload_parameters),
          .rounds_parameters = config->train.precision == config::Precision::pure_bf16,
          .rounding_seed = config->train.seed};
}

std::unique_ptr<Optimizer> make_optimizer(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map,
                                          const StateForm& form) {
  return std::make_unique<Elementwise>(rule_of(optimizer), optimizer.weight_decay, shard_map, form);
}

void step_all(Optimizer& optimizer, const parallel::UnitStorage& storage, ops::Backend& backend, std::int64_t step,
              double learning_rate, double gradient_scale) {
  optimizer.begin_step(step, learning_rate, gradient_scale, Optimizer::Order::ascending);
  for (int unit = 0; unit < storage.trainable().num_units(); ++unit) optimizer.step_unit(unit, storage, backend);
  optimizer.end_step();
}

}  // namespace sft::optim
