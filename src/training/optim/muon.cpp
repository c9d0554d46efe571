// SPDX-License-Identifier: Apache-2.0
#include "muon.hpp"

#include <algorithm>
#include <cmath>

#include "sft/core/ensure.hpp"

namespace sft::optim {

namespace {

/// A block's: units between the embedding and the head.
bool is_matrix_of_block(const parallel::ShardMap& shard_map, parallel::UnitIndex unit,
                        const parallel::Parameter& parameter) {
  return unit > 0 && unit < shard_map.num_units() - 1 && !parameter.is_vector();
}

IsParameter is_matrix_of(const parallel::ShardMap& shard_map) {
  return [&shard_map](parallel::UnitIndex unit, const parallel::Parameter& parameter) {
    return is_matrix_of_block(shard_map, unit, parameter);
  };
}

ElementwiseRule rule_of(const config::Optimizer& keys, const parallel::ShardMap& shard_map) {
  ElementwiseRule rule = adamw_rule(keys);
  rule.is_left_out = is_matrix_of(shard_map);
  return rule;
}

/// The runs of `is_meant` in each window.
std::vector<std::vector<ParameterRun>> runs_of(const std::vector<Window>& windows, const parallel::ShardMap& shard_map,
                                               const IsParameter& is_meant) {
  const std::vector<ParameterRun> all = plan_parameters(shard_map, is_meant);
  std::vector<std::vector<ParameterRun>> runs;
  for (const Window& window : windows) {
    runs.emplace_back();
    for (const ParameterRun& run : all) {
      const ParameterRun part = cut(run, window.begin, window.begin + window.count);
      if (part.count > 0) runs.back().push_back(part);
    }
  }
  return runs;
}

/// As long as the windows, without memory.
StateArray no_array(const std::vector<Window>& windows) {
  return {.dtype = DType::float32, .place = StateLocation::device, .windows = {windows.size(), {0, 0}}};
}

}  // namespace

Muon::Muon(const config::Optimizer& keys, const parallel::ShardMap& shard_map, const StateForm& form)
    : Elementwise(rule_of(keys, shard_map), keys.weight_decay, shard_map, form),
      keys_(keys),
      is_matrix_(is_matrix_of(shard_map)),
      matrices_(shard_map, is_matrix_),
      matrices_layout_(is_matrix_),
      matrix_runs_(runs_of(windows(), shard_map, is_matrix_)),
      momentum_(units_of(windows()), no_array(windows()),
                {packed_array(matrices_, windows(), form.moments, form.moments_location)}) {
  for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
    for (const parallel::Parameter& parameter : shard_map.unit(unit).parameters) {
      if (needs_whole(unit, parameter)) newton_schulz_.reserve(parameter.rows, parameter.columns);
    }
  }
}

bool Muon::needs_whole(parallel::UnitIndex unit, const parallel::Parameter& parameter) const {
  return is_matrix_(unit, parameter);
}

void Muon::lay_out(device::Arena& arena, device::Arena& pinned) {
  Elementwise::lay_out(arena, pinned);
  momentum_.lay_out(arena, pinned);
  newton_schulz_.lay_out(arena);
  squares_ = take(arena, DType::float64, {1});
}

void Muon::open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
                const std::string& folder) {
  Elementwise::open(device, compute_stream, storage, folder);
  momentum_.open(device, compute_stream, storage, folder);
}

std::vector<StateEntry> Muon::state() {
  std::vector<StateEntry> entries = Elementwise::state();
  if (matrices_layout_.tensors(shard_map()).empty()) return entries;
  entries.push_back({"momentum_buffer", momentum_.in_memory(0), momentum_.in_file(0), &matrices_layout_});
  return entries;
}

void Muon::zero(ops::Backend& backend) {
  Elementwise::zero(backend);
  momentum_.zero(backend);
}

void Muon::read_ahead(Order order) {
  momentum_.read_ahead(order);
  Elementwise::read_ahead(order);
}

void Muon::drain() noexcept {
  momentum_.drain();
  Elementwise::drain();
}

void Muon::begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) {
  learning_rate_ = learning_rate;
  order_ = order;
  Elementwise::begin_step(step, learning_rate, gradient_scale, order);
}

void Muon::share(const parallel::UnitStorage& storage, ops::Backend& backend) {
  const int num_units = shard_map().num_units();
  using Units = IndexRange<parallel::UnitIndex>;
  for (const parallel::UnitIndex unit : order_ == Order::ascending ? Units(num_units) : Units::reversed(num_units)) {
    momentum_.for_each_window(unit, [&](std::size_t window) { make_directions(window, storage, backend); });
  }
  momentum_.end_step();
  SFT_ENSURE(exchange_ != nullptr, "Muon has what makes matrices whole");
  exchange_->for_each([&](const parallel::WholeMatrix& matrix) { orthogonalize(matrix, backend); });
}

void Muon::make_directions(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const {
  const Tensor momentum = momentum_.state(window, 0);
  const std::int64_t begin = matrices_.place_of(windows()[window].begin);
  for (const ParameterRun& run : matrix_runs_[window]) {
    const Tensor gradients = storage.gradients().rows(run.begin, run.count);
    ops::Update update{.parameters = gradients,
                       .gradients = gradients,
                       .state = {momentum.rows(matrices_.place_of(run.begin) - begin, run.count), Tensor()},
                       .copy = {},
                       .rule = ops::Momentum{keys_.muon_momentum, keys_.nesterov},
                       .gradient_scale = gradient_scale(),
                       .rounding = run.rounding};
    update.rounding.key = rounding_key(run.rounding.key);
    backend.run(update);
  }
}

void Muon::step_left_out(std::size_t window, const Tensor& parameters, const parallel::UnitStorage& storage,
                         ops::Backend& backend) const {
  const Tensor copy = storage.compute_copy();
  for (const ParameterRun& run : matrix_runs_[window]) {
    const double factor = rate_factor(*run.parameter), rate = learning_rate_ * run.parameter->rate_factor;
    ops::Update update{.parameters = parameters.rows(run.begin - windows()[window].begin, run.count),
                       .gradients = storage.gradients().rows(run.begin, run.count),
                       .state = {},
                       .copy = copy.empty() ? copy : copy.rows(run.begin, run.count),
                       // Weights decay by the rate itself: not by that of the direction, which Sgd multiplies with.
                       .rule = ops::Sgd{rate * factor, keys_.weight_decay / factor},
                       .rounding = run.rounding};
    update.rounding.key = rounding_key(run.rounding.key);
    backend.run(update);
  }
}

void Muon::orthogonalize(const parallel::WholeMatrix& matrix, ops::Backend& backend) const {
  constexpr float epsilon = 1e-7F;
  const parallel::Parameter& parameter = *matrix.parameter;
  const Tensor x = newton_schulz_.input(parameter.rows, parameter.columns);
  backend.run(ops::Fill{Tensor(squares_.data, DType::float32, {2}), 0.0F});  // its bytes
  backend.run(ops::SumSquares{squares_, matrix.slices});
  backend.run(ops::DivideByNorm{matrix.slices, squares_, epsilon});
  for (int i = 0; i < matrix.num_slices; ++i) backend.run(ops::Copy{matrix.part_of(x, i), matrix.slice(i)});
  newton_schulz_.run(backend, x, matrix.slices.view({parameter.rows, parameter.columns}));
  for (int i = 0; i < matrix.num_slices; ++i) backend.run(ops::Copy{matrix.slice(i), matrix.part_of(x, i)});
}

double Muon::rate_factor(const parallel::Parameter& parameter) const {
  const auto rows = static_cast<double>(parameter.rows), columns = static_cast<double>(parameter.columns);
  return keys_.adjust_lr_fn == config::LrAdjustment::match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                                                                     : std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace sft::optim
