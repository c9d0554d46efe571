// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/adamw.hpp"

#include <algorithm>
#include <cmath>

#include "file_transfers.hpp"
#include "host_transfers.hpp"
#include "offloaded_state.hpp"
#include "sft/core/ensure.hpp"
#include "update_plan.hpp"

namespace sft::optim {

namespace {

constexpr std::int64_t no_limit = std::int64_t{1} << 60;

bool is_offloaded(const StateForm& form) {
  return form.moments_place != StatePlace::device || form.master_place != StatePlace::device;
}
bool is_rounded(const StateForm& form) { return form.rounds_parameters || form.moments == DType::bf16; }

}  // namespace

StateForm state_form(const config::Config& config, device::Kind kind) {
  const auto place = [kind](config::Offload offload) {
    if (offload == config::Offload::nvme) return StatePlace::file;
    return offload == config::Offload::host && kind == device::Kind::cuda ? StatePlace::host : StatePlace::device;
  };
  return {.moments = config.optimizer.moments_dtype,
          .moments_place = place(config.train.offload_optimizer),
          .master_place = place(config.train.offload_parameters),
          .rounds_parameters = config.train.precision == config::Precision::pure_bf16,
          .rounding_seed = config.train.seed};
}

AdamW::AdamW(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map, const StateForm& form)
    : optimizer_(optimizer),
      shard_map_(shard_map),
      form_(form),
      windows_(plan_updates(shard_map, is_offloaded(form) ? form.window_elements : no_limit, is_rounded(form))) {
  std::vector<DType> in_host, in_file;
  const auto put = [&](StatePlace place, DType dtype) {
    if (place == StatePlace::device) return Part{};
    std::vector<DType>& parts = place == StatePlace::host ? in_host : in_file;
    parts.push_back(dtype);
    return Part{place, parts.size() - 1};
  };
  master_ = put(form_.master_place, form_.rounds_parameters ? DType::bf16 : DType::float32);
  first_moment_ = put(form_.moments_place, form_.moments);
  second_moment_ = put(form_.moments_place, form_.moments);
  if (!in_host.empty()) in_host_ = std::make_unique<OffloadedState>(windows_, in_host);
  if (!in_file.empty()) in_file_ = std::make_unique<OffloadedState>(windows_, in_file);
}

AdamW::~AdamW() = default;

OffloadedState& AdamW::state_at(StatePlace place) const { return place == StatePlace::host ? *in_host_ : *in_file_; }

template <class Visit>
void AdamW::for_each_offloaded(const Visit& visit) const {
  for (OffloadedState* state : {in_host_.get(), in_file_.get()}) {
    if (state != nullptr) visit(*state);
  }
}

void AdamW::lay_out(device::Arena& arena, device::Arena& pinned) {
  if (in_host_) in_host_->lay_out(arena);
  if (in_file_) in_file_->lay_out(pinned);
  if (form_.moments_place == StatePlace::file) return;
  device::Arena& moments = form_.moments_place == StatePlace::host ? pinned : arena;
  exp_avg_ = take(moments, form_.moments, {shard_map_.rank_shard_elements()});
  exp_avg_sq_ = take(moments, form_.moments, {shard_map_.rank_shard_elements()});
}

std::uint64_t AdamW::file_bytes() const { return in_file_ ? optim::file_bytes(windows_, in_file_->dtypes()) : 0; }

void AdamW::open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
                 const std::string& folder) {
  if (in_host_) {
    std::vector<Tensor> state;  // in the order of their numbers
    if (form_.master_place == StatePlace::host) state.push_back(storage.parameters());
    if (form_.moments_place == StatePlace::host) state.insert(state.end(), {exp_avg_, exp_avg_sq_});
    in_host_->open(
        std::make_unique<HostTransfers>(windows_, std::move(state), in_host_->num_buffers(), device, compute_stream),
        device, compute_stream);
  }
  if (in_file_) {
    auto file =
        std::make_unique<FileTransfers>(windows_, in_file_->dtypes(), in_file_->num_buffers(), compute_stream, folder);
    is_file_direct_ = file->file().is_direct();
    in_file_->open(std::move(file), device, compute_stream);
  }
}

parallel::OffloadedShard* AdamW::shard_in_file(const Part& part) const {
  return part.place == StatePlace::file ? &in_file_->shard(part.number) : nullptr;
}
parallel::OffloadedShard* AdamW::master_in_file() { return shard_in_file(master_); }
parallel::OffloadedShard* AdamW::exp_avg_in_file() { return shard_in_file(first_moment_); }
parallel::OffloadedShard* AdamW::exp_avg_sq_in_file() { return shard_in_file(second_moment_); }

std::size_t AdamW::window_at(std::size_t position) const {
  return order_ == Order::ascending ? position : windows_.size() - 1 - position;
}

void AdamW::read_ahead(Order order) {
  order_ = order;
  next_ = 0;
  for_each_offloaded([&](OffloadedState& state) {
    state.begin_step();
    for (std::size_t i = 0; i < std::min<std::size_t>(2, windows_.size()); ++i) state.prefetch(window_at(i));
  });
}

void AdamW::drain() noexcept {
  for_each_offloaded([](OffloadedState& state) { state.drain(); });
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
    for_each_offloaded([&](OffloadedState& state) { state.use(window); });
    step_window(window, storage, backend);
    for_each_offloaded([&](OffloadedState& state) {
      state.done(window);
      if (next_ + 2 < windows_.size()) state.prefetch(window_at(next_ + 2));
    });
  }
}

void AdamW::end_step() {
  SFT_ENSURE(next_ == windows_.size(), "every unit is stepped, in order");
  for_each_offloaded([](OffloadedState& state) { state.end_step(); });
}

Tensor AdamW::part_of(std::size_t window, const Part& part, const Tensor& in_memory) const {
  if (part.place != StatePlace::device) return state_at(part.place).part(window, part.number);
  return in_memory.rows(windows_[window].begin, windows_[window].count);
}

void AdamW::step_window(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const {
  const std::int64_t begin = windows_[window].begin;
  const Tensor parameters = part_of(window, master_, storage.parameters());
  const Tensor exp_avg = part_of(window, first_moment_, exp_avg_);
  const Tensor exp_avg_sq = part_of(window, second_moment_, exp_avg_sq_);
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
