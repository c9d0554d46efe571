// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/optimizer.hpp"

#include "adafactor.hpp"
#include "adamw_8bit.hpp"
#include "elementwise.hpp"
#include "muon.hpp"
#include "sft/core/error.hpp"

namespace sft::optim {

namespace {

ElementwiseRule rule_of(const config::Optimizer& o) {
  using config::OptimizerKind;
  switch (o.optim) {
    case OptimizerKind::adamw_torch:
      return adamw_rule(o);
    case OptimizerKind::lion:
      return {{"exp_avg"}, [o](std::int64_t, double learning_rate, double weight_decay) {
                return ops::Lion{learning_rate, o.adam_beta1, o.adam_beta2, weight_decay};
              }};
    case OptimizerKind::adafactor:
    case OptimizerKind::adamw_8bit:
    case OptimizerKind::muon:
      break;  // classes of their own
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
    if (offload == config::Offload::nvme) return StateLocation::file;
    return offload == config::Offload::host && kind == device::Kind::cuda ? StateLocation::host : StateLocation::device;
  };
  return {.moments = config->optimizer.moments_dtype,
          .moments_location = place(config->train.offload_optimizer),
          .master_location = place(config->train.offload_parameters),
          .rounds_parameters = config->train.precision == config::Precision::pure_bf16,
          .rounding_seed = config->train.seed};
}

bool Optimizer::needs_whole(parallel::UnitIndex /*unit*/, const parallel::Parameter& /*parameter*/) const {
  return false;
}
void Optimizer::use(const StepCollectives& /*exchange*/) {}
void Optimizer::share(const parallel::UnitStorage& /*storage*/, ops::Backend& /*backend*/) {}

std::unique_ptr<Optimizer> make_optimizer(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map,
                                          const StateForm& form) {
  if (optimizer.optim == config::OptimizerKind::adafactor) {
    return std::make_unique<Adafactor>(optimizer, shard_map, form);
  }
  if (optimizer.optim == config::OptimizerKind::adamw_8bit) {
    return std::make_unique<Adamw8bit>(optimizer, shard_map, form);
  }
  if (optimizer.optim == config::OptimizerKind::muon) return std::make_unique<Muon>(optimizer, shard_map, form);
  return std::make_unique<Elementwise>(rule_of(optimizer), optimizer.weight_decay, shard_map, form);
}

void step_all(Optimizer& optimizer, const parallel::UnitStorage& storage, ops::Backend& backend, std::int64_t step,
              double learning_rate, double gradient_scale) {
  optimizer.begin_step(step, learning_rate, gradient_scale, Optimizer::Order::ascending);
  optimizer.share(storage, backend);
  for (const parallel::UnitIndex unit : storage.shard_map().unit_indices()) optimizer.step_unit(unit, storage, backend);
  optimizer.end_step(storage, backend);
}

}  // namespace sft::optim
