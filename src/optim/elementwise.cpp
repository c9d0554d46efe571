// SPDX-License-Identifier: Apache-2.0
#include "elementwise.hpp"

#include <algorithm>
#include <array>
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
      windows_(plan_updates(shard_map, is_offloaded(form) ? form.window_elements : no_limit, is_rounded(form),
                            rule_.is_directed)) {
  std::vector<DType> in_host, in_file;
  const auto put = [&](StatePlace place, DType dtype) {
    if (place == StatePlace::device) return Part{};
    std::vector<DType>& parts = place == StatePlace::host ? in_host : in_file;
    parts.push_back(dtype);
    return Part{.place = place, .number = parts.size() - 1};
  };
  master_ = put(form_.master_place, form_.rounds_parameters ? DType::bf16 : DType::float32);
  for (std::size_t i = 0; i < rule_.state.size(); ++i) state_.push_back(put(form_.moments_place, form_.moments));
  if (!in_host.empty()) in_host_ = std::make_unique<OffloadedState>(windows_, in_host);
  if (!in_file.empty()) in_file_ = std::make_unique<OffloadedState>(windows_, in_file);
}

Elementwise::~Elementwise() = default;

OffloadedState& Elementwise::state_at(StatePlace place) const {
  return place == StatePlace::host ? *in_host_ : *in_file_;
}

template <class Visit>
void Elementwise::for_each_offloaded(const Visit& visit) const {
  for (OffloadedState* state : {in_host_.get(), in_file_.get()}) {
    if (state != nullptr) visit(*state);
  }
}

void Elementwise::lay_out(device::Arena& arena, device::Arena& pinned) {
  if (in_host_) in_host_->lay_out(arena);
  if (in_file_) in_file_->lay_out(pinned);
  for (Part& part : state_) {
    if (part.place == StatePlace::file) continue;
    part.in_memory =
        take(part.place == StatePlace::host ? pinned : arena, form_.moments, {shard_map_.rank_shard_elements()});
  }
}

std::uint64_t Elementwise::file_bytes() const { return in_file_ ? optim::file_bytes(windows_, in_file_->dtypes()) : 0; }

void Elementwise::open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
                       const std::string& folder) {
  if (in_host_) {
    std::vector<Tensor> tensors;  // in the order of their numbers
    if (form_.master_place == StatePlace::host) tensors.push_back(storage.parameters());
    for (const Part& part : state_) {
      if (part.place == StatePlace::host) tensors.push_back(part.in_memory);
    }
    in_host_->open(
        std::make_unique<HostTransfers>(windows_, std::move(tensors), in_host_->num_buffers(), device, compute_stream),
        device, compute_stream);
  }
  if (in_file_) {
    auto file =
        std::make_unique<FileTransfers>(windows_, in_file_->dtypes(), in_file_->num_buffers(), compute_stream, folder);
    is_file_direct_ = file->file().is_direct();
    in_file_->open(std::move(file), device, compute_stream);
  }
}

parallel::OffloadedShard* Elementwise::shard_in_file(const Part& part) const {
  return part.place == StatePlace::file ? &in_file_->shard(part.number) : nullptr;
}
parallel::OffloadedShard* Elementwise::master_in_file() { return shard_in_file(master_); }

std::vector<StateEntry> Elementwise::state() {
  std::vector<StateEntry> entries;
  for (std::size_t i = 0; i < state_.size(); ++i) {
    entries.push_back({rule_.state[i], state_[i].in_memory, shard_in_file(state_[i])});
  }
  return entries;
}

void Elementwise::zero(ops::Backend& backend) {
  for (const StateEntry& entry : state()) {
    if (entry.in_file != nullptr) {
      entry.in_file->clear();
    } else {
      backend.fill(entry.tensor, 0.0F);
    }
  }
}

std::size_t Elementwise::window_at(std::size_t position) const {
  return order_ == Order::ascending ? position : windows_.size() - 1 - position;
}

void Elementwise::read_ahead(Order order) {
  order_ = order;
  next_ = 0;
  for_each_offloaded([&](OffloadedState& state) {
    state.begin_step();
    for (std::size_t i = 0; i < std::min<std::size_t>(2, windows_.size()); ++i) state.prefetch(window_at(i));
  });
}

void Elementwise::drain() noexcept {
  for_each_offloaded([](OffloadedState& state) { state.drain(); });
}

void Elementwise::begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) {
  decaying_ = rule_.at(step, learning_rate, weight_decay_);
  not_decaying_ = rule_.at(step, learning_rate, 0.0);
  gradient_scale_ = gradient_scale;
  rounding_key_ = mix(form_.rounding_seed, static_cast<std::uint64_t>(step));
  read_ahead(order);
}

void Elementwise::step_unit(int unit, const parallel::UnitStorage& storage, ops::Backend& backend) {
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

std::uint64_t Elementwise::rounding_key(std::uint64_t key) const { return mix(rounding_key_, key); }

void Elementwise::end_step(const parallel::UnitStorage& /*storage*/, ops::Backend& /*backend*/) {
  SFT_ENSURE(next_ == windows_.size(), "every unit is stepped, in order");
  for_each_offloaded([](OffloadedState& state) { state.end_step(); });
}

Tensor Elementwise::part_of(std::size_t window, const Part& part, const Tensor& in_memory) const {
  if (part.place != StatePlace::device) return state_at(part.place).part(window, part.number);
  return in_memory.rows(windows_[window].begin, windows_[window].count);
}

void Elementwise::step_window(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const {
  const std::int64_t begin = windows_[window].begin;
  const Tensor parameters = part_of(window, master_, storage.parameters());
  std::array<Tensor, 2> state;
  for (std::size_t i = 0; i < state_.size(); ++i) state[i] = part_of(window, state_[i], state_[i].in_memory);
  const Tensor copy = storage.compute_copy();
  for (const Run& run : windows_[window].runs) {
    const std::int64_t at = run.begin - begin;
    const bool is_directed = run.treatment == Treatment::direct;
    const Tensor gradients = storage.gradients().rows(run.begin, run.count);
    ops::Update update{.parameters = is_directed ? gradients : parameters.rows(at, run.count),
                       .gradients = gradients,
                       .state = {},
                       .copy = copy.empty() || is_directed ? Tensor() : copy.rows(run.begin, run.count),
                       .rule = is_directed                         ? rule_.direction
                               : run.treatment == Treatment::decay ? decaying_
                                                                   : not_decaying_,
                       .gradient_scale = gradient_scale_,
                       .rounding = run.rounding};
    for (std::size_t i = 0; i < state_.size(); ++i) update.state[i] = state[i].rows(at, run.count);
    update.rounding.key = rounding_key(run.rounding.key);
    backend.update(update);
  }
}

}  // namespace sft::optim
