// SPDX-License-Identifier: Apache-2.0
#include "adamw_8bit.hpp"

#include "elementwise.hpp"
#include "sft/core/ensure.hpp"
#include "sft/parallel/shard_reduction.hpp"

namespace sft::optim {

namespace {

constexpr std::array names{"exp_avg", "exp_avg_sq"};

template <class Range>
StateArray array_of(const std::vector<BlockWindow>& windows, const Range& range, DType dtype, StateLocation place) {
  StateArray array{.dtype = dtype, .place = place, .windows = {}};
  for (const BlockWindow& window : windows) array.windows.push_back(window.*range);
  return array;
}

std::vector<parallel::UnitIndex> units_of(const std::vector<BlockWindow>& windows) {
  std::vector<parallel::UnitIndex> units;
  for (const BlockWindow& window : windows) units.push_back(window.unit);
  return units;
}

/// Codes and numbers of both moments.
std::vector<StateArray> state_arrays(const std::vector<BlockWindow>& windows, StateLocation place) {
  const StateArray codes = array_of(windows, &BlockWindow::codes, DType::uint8, place),
                   floats = array_of(windows, &BlockWindow::floats, DType::float32, place);
  return {codes, codes, floats, floats};
}

}  // namespace

Adamw8bit::Adamw8bit(const config::Optimizer& keys, const parallel::ShardMap& shard_map, const StateForm& form)
    : keys_(keys),
      form_(form),
      cuts_(shard_map),
      plan_(shard_map, cuts_),
      has_floats_(!floats_layout_.tensors(shard_map).empty()),
      has_blocks_(!codes_layout_.tensors(shard_map).empty()),
      windows_(plan_windows(shard_map, plan_, max_window_elements(form))),
      arrays_(units_of(windows_), array_of(windows_, &BlockWindow::shard, master_dtype(form), form.master_location),
              state_arrays(windows_, form.moments_location)) {
  SFT_ENSURE(form.moments == DType::float32, "moments are float32 where they are not in 8 bits");
}

void Adamw8bit::lay_out(device::Arena& arena, device::Arena& pinned) {
  arrays_.lay_out(arena, pinned);
  maxima_ = take(arena, DType::float32, {num_maxima()});
  codes_.clear();
  for (std::size_t i = 0; i < num_moments; ++i) {
    Moment& moment = moments_[i];
    moment.cut_codes = take(arena, DType::uint8, {plan_.num_cut_codes});
    moment.scales = take(arena, DType::float32, {plan_.num_scales + cuts_.num_slots()});
    moment.maxima = maxima_.rows(static_cast<std::int64_t>(i) * cuts_.num_slots(), cuts_.num_slots());
    codes_.emplace_back(DType::uint8, JoinedShard::Part{arrays_.in_memory(i), arrays_.in_file(i)},
                        JoinedShard::Part{moment.cut_codes});
  }
}

void Adamw8bit::open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
                     const std::string& folder) {
  arrays_.open(device, compute_stream, storage, folder);
  for (JoinedShard& codes : codes_) codes.open(device, compute_stream);
}

std::vector<StateEntry> Adamw8bit::state() {
  std::vector<StateEntry> entries;  // those of one layout follow each other
  for (std::size_t i = 0; i < num_moments && has_floats_; ++i) {
    const std::size_t number = num_moments + i;
    entries.push_back({names[i], arrays_.in_memory(number), arrays_.in_file(number), &floats_layout_});
  }
  for (std::size_t i = 0; i < num_moments && has_blocks_; ++i) {
    entries.push_back(
        {std::string(names[i]) + "_codes", Tensor(), codes_.empty() ? nullptr : &codes_[i], &codes_layout_});
  }
  for (std::size_t i = 0; i < num_moments && has_blocks_; ++i) {
    entries.push_back({std::string(names[i]) + "_absmax", moments_[i].scales, nullptr, &scales_layout_});
  }
  return entries;
}

void Adamw8bit::zero(ops::Backend& backend) {
  arrays_.zero(backend);
  for (const Moment& moment : moments_) {
    fill_zero(backend, moment.cut_codes);
    fill_zero(backend, moment.scales);
  }
}

void Adamw8bit::begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) {
  step_ = step;
  learning_rate_ = learning_rate;
  gradient_scale_ = gradient_scale;
  rounding_key_ = mix(form_.rounding_seed, static_cast<std::uint64_t>(step));
  read_ahead(order);
}

ops::UpdateRule Adamw8bit::rule_of(const parallel::Parameter& parameter) const {
  const double weight_decay = parameter.decays() ? keys_.weight_decay : 0.0;
  const double learning_rate = learning_rate_ * parameter.rate_factor;
  auto rule = std::get<ops::AdamW>(adamw_rule(keys_).at(step_, learning_rate, weight_decay));
  // bitsandbytes lets weights decay behind the step, not before it: as if this were shorter by the same factor.
  rule.bias_correction1 /= 1.0 - learning_rate * weight_decay;
  return rule;
}

ops::Update Adamw8bit::update_of(const BlockRun& run, const parallel::UnitStorage& storage) const {
  ops::Update update{.parameters = {},
                     .gradients = storage.gradients_at(run.begin, run.count),
                     .state = {},
                     .copy = {},
                     .rule = rule_of(*run.parameter),
                     .gradient_scale = gradient_scale_,
                     .rounding = run.rounding};
  update.rounding.key = mix(rounding_key_, run.rounding.key);
  return update;
}

ops::BlockwiseUpdate Adamw8bit::cut_update_of(const BlockRun& run, const parallel::UnitStorage& storage) const {
  ops::BlockwiseUpdate step{
      .update = update_of(run, storage), .scales = {}, .new_scales = {}, .first_block = run.first_block};
  for (std::size_t i = 0; i < num_moments; ++i) {
    step.update.state[i] = moments_[i].cut_codes.rows(run.state_begin, run.count);
    step.scales[i] = moments_[i].scales.rows(plan_.num_scales + run.scale_begin, run.num_scales);
    step.new_scales[i] = moments_[i].maxima.rows(run.scale_begin, run.num_scales);
  }
  return step;
}

void Adamw8bit::share(const parallel::UnitStorage& storage, ops::Backend& backend) {
  if (num_maxima() == 0) return;
  SFT_ENSURE(reduction_ != nullptr, "cut blocks have what takes the maximum over ranks");
  backend.run(ops::Fill{maxima_, 0.0F});
  for (const BlockRun& run : plan_.runs) {
    if (run.kind != BlockRun::Kind::cut) continue;
    ops::BlockwiseUpdate step = cut_update_of(run, storage);
    backend.run(ops::RaiseScales{step});
  }
  reduction_->max(maxima_);
}

void Adamw8bit::step_unit(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend) {
  arrays_.for_each_window(unit, [&](std::size_t window) { step_window(window, storage, backend); });
}

void Adamw8bit::step_window(std::size_t number, const parallel::UnitStorage& storage, ops::Backend& backend) const {
  const BlockWindow& window = windows_[number];
  const Tensor parameters = arrays_.master(number, storage), copy = storage.compute_copy();
  const auto with_parameters = [&](const BlockRun& run, ops::Update update) {
    update.parameters = parameters.rows(run.begin - window.shard.begin, run.count);
    if (!copy.empty()) update.copy = copy.rows(run.begin, run.count);
    return update;
  };
  for (const BlockRun& run : window.runs) {
    if (run.kind == BlockRun::Kind::cut) {
      ops::BlockwiseUpdate step = cut_update_of(run, storage);
      step.update = with_parameters(run, step.update);
      backend.run(ops::UpdateBlockwise{step});
      continue;
    }
    const bool is_blockwise = run.kind == BlockRun::Kind::whole;
    const std::int64_t state_begin = run.state_begin - (is_blockwise ? window.codes : window.floats).begin;
    ops::BlockwiseUpdate step{.update = with_parameters(run, update_of(run, storage)), .scales = {}};
    for (std::size_t i = 0; i < num_moments; ++i) {
      step.update.state[i] = arrays_.state(number, is_blockwise ? i : num_moments + i).rows(state_begin, run.count);
      if (is_blockwise) step.scales[i] = moments_[i].scales.rows(run.scale_begin, run.num_scales);
    }
    if (is_blockwise) {
      backend.run(ops::UpdateBlockwise{step});
    } else {
      backend.run(step.update);
    }
  }
}

void Adamw8bit::end_step(const parallel::UnitStorage& /*storage*/, ops::Backend& backend) {
  arrays_.end_step();
  if (num_maxima() == 0) return;
  for (const Moment& moment : moments_) {
    backend.run(ops::Copy{moment.scales.rows(plan_.num_scales, cuts_.num_slots()), moment.maxima});
  }
}

}  // namespace sft::optim
