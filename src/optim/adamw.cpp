// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/adamw.hpp"

#include <algorithm>
#include <cmath>

#include "offloaded_state.hpp"
#include "sft/core/error.hpp"
#include "update_plan.hpp"

namespace sft::optim {

namespace {

constexpr std::int64_t no_limit = std::int64_t{1} << 60;

bool uses_file(const StateForm& form) { return form.moments_in_file || form.master_in_file; }
bool is_rounded(const StateForm& form) { return form.rounds_parameters || form.moments == DType::bf16; }

}  // namespace

StateForm state_form(const config::Config& config) {
  return {.moments = config.optimizer.moments_dtype,
          .moments_in_file = config.train.offload_optimizer == config::Offload::nvme,
          .master_in_file = config.train.offload_parameters == config::Offload::nvme,
          .rounds_parameters = config.train.precision == config::Precision::pure_bf16,
          .rounding_seed = config.train.seed};
}

AdamW::AdamW(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map, const StateForm& form)
    : optimizer_(optimizer),
      shard_map_(shard_map),
      form_(form),
      windows_(plan_updates(shard_map, uses_file(form) ? form.window_elements : no_limit, is_rounded(form))) {
  std::vector<DType> parts;
  const auto put_in_file = [&](std::size_t& part, DType dtype) {
    part = parts.size();
    parts.push_back(dtype);
  };
  if (form_.master_in_file) put_in_file(master_part_, DType::float32);
  if (form_.moments_in_file) {
    put_in_file(exp_avg_part_, form_.moments);
    put_in_file(exp_avg_sq_part_, form_.moments);
  }
  if (!parts.empty()) file_ = std::make_unique<OffloadedState>(windows_, parts);
}

AdamW::~AdamW() = default;

void AdamW::lay_out(device::Arena& arena, device::Arena& pinned) {
  if (file_) file_->lay_out(pinned);
  if (form_.moments_in_file) return;
  exp_avg_ = take(arena, form_.moments, {shard_map_.rank_shard_elements()});
  exp_avg_sq_ = take(arena, form_.moments, {shard_map_.rank_shard_elements()});
}

std::uint64_t AdamW::file_bytes() const { return file_ ? file_->file_bytes() : 0; }

void AdamW::open_file(const std::string& folder) {
  ensure(file_ != nullptr, "the optimizer's state has a part in a file");
  file_->open(folder);
}

bool AdamW::is_file_direct() const {
  ensure(file_ != nullptr, "the optimizer's state has a part in a file");
  return file_->file().is_direct();
}

parallel::OffloadedShard* AdamW::shard_in_file(std::size_t part) {
  return part == not_in_file ? nullptr : &file_->shard(part);
}
parallel::OffloadedShard* AdamW::master_in_file() { return shard_in_file(master_part_); }
parallel::OffloadedShard* AdamW::exp_avg_in_file() { return shard_in_file(exp_avg_part_); }
parallel::OffloadedShard* AdamW::exp_avg_sq_in_file() { return shard_in_file(exp_avg_sq_part_); }

std::size_t AdamW::window_at(std::size_t position) const {
  return order_ == Order::ascending ? position : windows_.size() - 1 - position;
}

void AdamW::read_ahead(Order order) {
  order_ = order;
  next_ = 0;
  if (!file_) return;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, windows_.size()); ++i) file_->prefetch(window_at(i));
}

void AdamW::drain() noexcept {
  if (file_) file_->drain();
}

void AdamW::step(const parallel::UnitStorage& storage, ops::Backend& backend, std::int64_t step, double learning_rate,
                 double gradient_scale) {
  begin_step(step, learning_rate, gradient_scale, Order::ascending);
  for (int unit = 0; unit < shard_map_.num_units(); ++unit) step_unit(unit, storage, backend);
  end_step();
}

void AdamW::begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) {
  const auto t = static_cast<double>(step);
  hyper_ = {.learning_rate = learning_rate,
            .beta1 = optimizer_.adam_beta1,
            .beta2 = optimizer_.adam_beta2,
            .epsilon = optimizer_.adam_epsilon,
            .weight_decay = optimizer_.weight_decay,
            .bias_correction1 = 1 - std::pow(optimizer_.adam_beta1, t),
            .bias_correction2 = 1 - std::pow(optimizer_.adam_beta2, t),
            .gradient_scale = gradient_scale};
  rounding_key_ = mix(form_.rounding_seed, static_cast<std::uint64_t>(step));
  read_ahead(order);
}

void AdamW::step_unit(int unit, const parallel::UnitStorage& storage, ops::Backend& backend) {
  for (; next_ < windows_.size() && windows_[window_at(next_)].unit == unit; ++next_) {
    const std::size_t window = window_at(next_);
    if (file_) file_->use(window);
    step_window(window, storage, backend);
    if (!file_) continue;
    backend.stream().synchronize();
    file_->done(window);
    if (next_ + 2 < windows_.size()) file_->prefetch(window_at(next_ + 2));
  }
}

void AdamW::end_step() { ensure(next_ == windows_.size(), "every unit is stepped, in order"); }

Tensor AdamW::part_of(std::size_t window, std::size_t part, const Tensor& in_memory) const {
  if (part != not_in_file) return file_->part(window, part);
  return in_memory.rows(windows_[window].begin, windows_[window].count);
}

void AdamW::step_window(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const {
  const std::int64_t begin = windows_[window].begin;
  const Tensor parameters = part_of(window, master_part_, storage.parameters());
  const Tensor exp_avg = part_of(window, exp_avg_part_, exp_avg_);
  const Tensor exp_avg_sq = part_of(window, exp_avg_sq_part_, exp_avg_sq_);
  const Tensor copy = storage.compute_copy();
  for (const Run& run : windows_[window].runs) {
    ops::AdamW with = hyper_;
    if (!run.decays) with.weight_decay = 0.0;
    with.rounding = run.rounding;
    with.rounding.key = mix(rounding_key_, run.rounding.key);
    const std::int64_t at = run.begin - begin;
    backend.adamw(parameters.rows(at, run.count), storage.gradients().rows(run.begin, run.count),
                  exp_avg.rows(at, run.count), exp_avg_sq.rows(at, run.count),
                  copy.empty() ? copy : copy.rows(run.begin, run.count), with);
  }
}

}  // namespace sft::optim
