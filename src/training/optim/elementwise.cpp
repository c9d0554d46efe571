// SPDX-License-Identifier: Apache-2.0
#include "elementwise.hpp"

#include <array>
#include <cmath>

namespace sft::optim {

namespace {

bool is_rounded(const StateForm& form) { return form.rounds_parameters || form.moments == DType::bf16; }

IsParameter negation_of(const IsParameter& is_left_out) {
  return [is_left_out](parallel::UnitIndex unit, const parallel::Parameter& p) {
    return !is_left_out || !is_left_out(unit, p);
  };
}

std::optional<PackedShard> packed_shard(const parallel::ShardMap& shard_map, const IsParameter& is_left_out) {
  if (!is_left_out) return std::nullopt;
  return PackedShard(shard_map, negation_of(is_left_out));
}

/// As long as the rank shard.
StateArray array_of(const std::vector<Window>& windows, DType dtype, StateLocation place) {
  StateArray array{.dtype = dtype, .place = place, .windows = {}};
  for (const Window& window : windows) array.windows.push_back({window.begin, window.count});
  return array;
}

}  // namespace

ElementwiseRule adamw_rule(const config::Optimizer& keys) {
  return {{"exp_avg", "exp_avg_sq"}, [keys](std::int64_t step, double learning_rate, double weight_decay) {
            const auto t = static_cast<double>(step);
            return ops::AdamW{.learning_rate = learning_rate,
                              .beta1 = keys.adam_beta1,
                              .beta2 = keys.adam_beta2,
                              .epsilon = keys.adam_epsilon,
                              .weight_decay = weight_decay,
                              .bias_correction1 = 1 - std::pow(keys.adam_beta1, t),
                              .bias_correction2 = 1 - std::pow(keys.adam_beta2, t)};
          }};
}

Elementwise::Elementwise(ElementwiseRule rule, double weight_decay, const parallel::ShardMap& shard_map,
                         const StateForm& form)
    : rule_(std::move(rule)),
      weight_decay_(weight_decay),
      shard_map_(shard_map),
      form_(form),
      windows_(plan_updates(shard_map, max_window_elements(form), is_rounded(form), rule_.is_left_out)),
      packed_(packed_shard(shard_map, rule_.is_left_out)),
      packed_layout_(negation_of(rule_.is_left_out)),
      arrays_(units_of(windows_), array_of(windows_, master_dtype(form), form.master_location),
              {rule_.state.size(), packed_ ? packed_array(*packed_, windows_, form.moments, form.moments_location)
                                           : array_of(windows_, form.moments, form.moments_location)}) {}

std::vector<StateEntry> Elementwise::state() {
  std::vector<StateEntry> entries;
  if (packed_ && packed_layout_.tensors(shard_map_).empty()) return entries;
  for (std::size_t i = 0; i < rule_.state.size(); ++i) {
    entries.push_back({rule_.state[i], arrays_.in_memory(i), arrays_.in_file(i),
                       packed_ ? &packed_layout_ : &parallel::as_parameters()});
  }
  return entries;
}

void Elementwise::begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) {
  step_ = step;
  learning_rate_ = learning_rate;
  gradient_scale_ = gradient_scale;
  rounding_key_ = mix(form_.rounding_seed, static_cast<std::uint64_t>(step));
  read_ahead(order);
}

void Elementwise::step_unit(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend) {
  arrays_.for_each_window(unit, [&](std::size_t window) { step_window(window, storage, backend); });
}

std::uint64_t Elementwise::rounding_key(std::uint64_t key) const { return mix(rounding_key_, key); }

void Elementwise::end_step(const parallel::UnitStorage& /*storage*/, ops::Backend& /*backend*/) { arrays_.end_step(); }

std::int64_t Elementwise::state_place(std::int64_t element, std::size_t window) const {
  const std::int64_t begin = windows_[window].begin;
  return packed_ ? packed_->place_of(element) - packed_->place_of(begin) : element - begin;
}

void Elementwise::step_window(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const {
  const Tensor parameters = arrays_.master(window, storage);
  std::array<Tensor, 2> state;
  for (std::size_t i = 0; i < rule_.state.size(); ++i) state[i] = arrays_.state(window, i);
  const Tensor copy = storage.compute_copy();
  for (const Run& run : windows_[window].runs) {
    ops::Update update{.parameters = parameters.rows(run.begin - windows_[window].begin, run.count),
                       .gradients = storage.gradients_at(run.begin, run.count),
                       .state = {},
                       .copy = copy.empty() ? Tensor() : copy.rows(run.begin, run.count),
                       .rule = rule_.at(step_, learning_rate_ * run.rate_factor,
                                        run.treatment == Treatment::decay ? weight_decay_ : 0.0),
                       .gradient_scale = gradient_scale_,
                       .rounding = run.rounding};
    const std::int64_t place = state_place(run.begin, window);
    for (std::size_t i = 0; i < rule_.state.size(); ++i) update.state[i] = state[i].rows(place, run.count);
    update.rounding.key = rounding_key(run.rounding.key);
    backend.run(update);
  }
  step_left_out(window, parameters, storage, backend);
}

}  // namespace sft::optim
