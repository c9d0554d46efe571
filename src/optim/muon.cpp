// SPDX-License-Identifier: Apache-2.0
#include "muon.hpp"

#include <algorithm>
#include <cmath>

#include "sft/core/ensure.hpp"

namespace sft::optim {

namespace {

/// A block's: units between the embedding and the head.
bool is_matrix_of_block(const parallel::ShardMap& shard_map, int unit, const parallel::Parameter& parameter) {
  return unit > 0 && unit < shard_map.num_units() - 1 && !parameter.is_vector();
}

ElementwiseRule rule_of(const config::Optimizer& keys, const parallel::ShardMap& shard_map) {
  ElementwiseRule rule = adamw_rule(keys);
  rule.is_directed = [&shard_map](int unit, const parallel::Parameter& parameter) {
    return is_matrix_of_block(shard_map, unit, parameter);
  };
  rule.direction = ops::Momentum{keys.muon_momentum, keys.nesterov};
  return rule;
}

}  // namespace

Muon::Muon(const config::Optimizer& keys, const parallel::ShardMap& shard_map, const StateForm& form)
    : Elementwise(rule_of(keys, shard_map), keys.weight_decay, shard_map, form),
      keys_(keys),
      matrix_runs_(plan_parameters(shard_map, [&](int unit, const parallel::Parameter& parameter) {
        return is_matrix_of_block(shard_map, unit, parameter);
      })) {
  for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
    for (const parallel::Parameter& parameter : shard_map.unit(unit).parameters) {
      if (needs_whole(unit, parameter)) newton_schulz_.reserve(parameter.rows, parameter.columns);
    }
  }
}

bool Muon::needs_whole(int unit, const parallel::Parameter& parameter) const {
  return is_matrix_of_block(shard_map(), unit, parameter);
}

void Muon::lay_out(device::Arena& arena, device::Arena& pinned) {
  Elementwise::lay_out(arena, pinned);
  newton_schulz_.lay_out(arena);
  squares_ = take(arena, DType::float64, {1});
}

void Muon::begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) {
  learning_rate_ = learning_rate;
  Elementwise::begin_step(step, learning_rate, gradient_scale, order);
}

void Muon::end_step(const parallel::UnitStorage& storage, ops::Backend& backend) {
  Elementwise::end_step(storage, backend);
  SFT_ENSURE(exchange_ != nullptr, "Muon has what makes matrices whole");
  exchange_->for_each([&](const parallel::WholeMatrix& matrix) { orthogonalize(matrix, backend); });

  const Tensor copy = storage.compute_copy();
  for (const ParameterRun& run : matrix_runs_) {
    const double factor = rate_factor(*run.parameter);
    ops::Update update{.parameters = storage.parameters().rows(run.begin, run.count),
                       .gradients = storage.gradients().rows(run.begin, run.count),
                       .state = {},
                       .copy = copy.empty() ? copy : copy.rows(run.begin, run.count),
                       // Weights decay by the rate itself: not by that of the direction, which Sgd multiplies with.
                       .rule = ops::Sgd{learning_rate_ * factor, keys_.weight_decay / factor},
                       .rounding = run.rounding};
    update.rounding.key = rounding_key(run.rounding.key);
    backend.update(update);
  }
}

void Muon::orthogonalize(const parallel::WholeMatrix& matrix, ops::Backend& backend) const {
  constexpr float epsilon = 1e-7F;
  const parallel::Parameter& parameter = *matrix.parameter;
  const Tensor x = newton_schulz_.input(parameter.rows, parameter.columns);
  backend.fill(Tensor(squares_.data, DType::float32, {2}), 0.0F);  // its bytes
  backend.sum_squares(squares_, matrix.slices);
  backend.divide_by_norm(matrix.slices, squares_, epsilon);
  for (int i = 0; i < matrix.num_slices; ++i) backend.copy(matrix.part_of(x, i), matrix.slice(i));
  newton_schulz_.run(backend, x, matrix.slices.view({parameter.rows, parameter.columns}));
  for (int i = 0; i < matrix.num_slices; ++i) backend.copy(matrix.slice(i), matrix.part_of(x, i));
}

double Muon::rate_factor(const parallel::Parameter& parameter) const {
  const auto rows = static_cast<double>(parameter.rows), columns = static_cast<double>(parameter.columns);
  return keys_.adjust_lr_fn == config::LrAdjustment::match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                                                                     : std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace sft::optim
