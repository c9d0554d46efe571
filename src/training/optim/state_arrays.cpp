// SPDX-License-Identifier: Apache-2.0
#include "state_arrays.hpp"

#include <algorithm>
#include <utility>

#include "sft/core/ensure.hpp"
#include "sft/transfer/file_mover.hpp"
#include "sft/transfer/host_mover.hpp"

namespace sft::optim {

StateArrays::StateArrays(std::vector<parallel::UnitIndex> units, StateArray master, std::vector<StateArray> state)
    : units_(std::move(units)) {
  std::vector<transfer::WindowedArray> in_host, in_file;
  const auto put = [&](StateArray array) {
    SFT_ENSURE(array.windows.size() == units_.size(), "an array has all windows");
    Part part{.array = std::move(array)};
    if (part.array.place == StateLocation::device) return part;
    auto& arrays = part.array.place == StateLocation::host ? in_host : in_file;
    part.number = arrays.size();
    transfer::WindowedArray& windowed = arrays.emplace_back();
    windowed.dtype = part.array.dtype;
    for (const parallel::ShardRange& window : part.array.windows) windowed.windows.push_back(window.count);
    return part;
  };
  master_ = put(std::move(master));
  for (StateArray& array : state) state_.push_back(put(std::move(array)));
  if (!in_host.empty()) in_host_ = std::make_unique<transfer::Windows>(std::move(in_host));
  if (!in_file.empty()) in_file_ = std::make_unique<transfer::Windows>(std::move(in_file));
}

StateArrays::~StateArrays() = default;

transfer::Windows& StateArrays::state_at(StateLocation place) const {
  return place == StateLocation::host ? *in_host_ : *in_file_;
}

template <class Visit>
void StateArrays::for_each_offloaded(const Visit& visit) const {
  for (transfer::Windows* state : {in_host_.get(), in_file_.get()}) {
    if (state != nullptr) visit(*state);
  }
}

void StateArrays::lay_out(device::Arena& arena, device::Arena& pinned) {
  if (in_host_) in_host_->lay_out(arena);
  if (in_file_) in_file_->lay_out(pinned);
  for (Part& part : state_) {
    if (part.array.place == StateLocation::file) continue;
    part.memory =
        take(part.array.place == StateLocation::host ? pinned : arena, part.array.dtype, {part.array.num_elements()});
  }
}

std::uint64_t StateArrays::file_bytes() const { return in_file_ ? transfer::file_bytes(in_file_->place_bytes()) : 0; }

void StateArrays::open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
                       const std::string& folder) {
  if (in_host_) {
    std::vector<Tensor> tensors;  // in the order of their numbers
    if (master_.array.place == StateLocation::host) tensors.push_back(storage.parameters());
    for (const Part& part : state_) {
      if (part.array.place == StateLocation::host) tensors.push_back(part.memory);
    }
    in_host_->open(std::make_unique<transfer::HostMover>(in_host_->places(tensors), in_host_->num_buffers(), device,
                                                         compute_stream, "state", device::Priority::communication),
                   device, compute_stream);
  }
  if (in_file_) {
    const transfer::FileMover::File where{
        .folder = folder, .use = {.what = "the optimizer's state", .instead = "offload_optimizer = none"}};
    auto mover = std::make_unique<transfer::FileMover>(where, in_file_->place_bytes(), in_file_->num_buffers(), device,
                                                       compute_stream);
    is_file_direct_ = mover->file().is_direct();
    in_file_->open(std::move(mover), device, compute_stream);
  }
}

transfer::OffloadedShard* StateArrays::shard_in_file(const Part& part) const {
  return part.array.place == StateLocation::file ? &in_file_->shard(part.number) : nullptr;
}

void StateArrays::zero(ops::Backend& backend) {
  for (const Part& part : state_) {
    if (transfer::OffloadedShard* in_file = shard_in_file(part); in_file != nullptr) {
      in_file->clear();
    } else {
      fill_zero(backend, part.memory);
    }
  }
}

std::size_t StateArrays::window_at(std::size_t position) const {
  return order_ == Order::ascending ? position : units_.size() - 1 - position;
}

void StateArrays::read_ahead(Order order) {
  order_ = order;
  next_ = 0;
  if (in_host_) in_host_->begin_step();
  for_each_offloaded([&](transfer::Windows& state) {
    for (std::size_t i = 0; i < std::min<std::size_t>(2, units_.size()); ++i) state.prefetch(window_at(i));
  });
}

void StateArrays::drain() noexcept {
  for_each_offloaded([](transfer::Windows& state) { state.drain(); });
}

void StateArrays::for_each_window(parallel::UnitIndex unit, const std::function<void(std::size_t window)>& work) {
  for (; next_ < units_.size() && units_[window_at(next_)] == unit; ++next_) {
    const std::size_t window = window_at(next_);
    for_each_offloaded([&](transfer::Windows& state) { state.use(window); });
    work(window);
    for_each_offloaded([&](transfer::Windows& state) {
      state.done(window);
      if (next_ + 2 < units_.size()) state.prefetch(window_at(next_ + 2));
    });
  }
}

void StateArrays::end_step() {
  SFT_ENSURE(next_ == units_.size(), "every unit is stepped, in order");
  if (in_host_) in_host_->end_step();
}

Tensor StateArrays::part_of(std::size_t window, const Part& part, const Tensor& memory) const {
  if (part.array.place != StateLocation::device) return state_at(part.array.place).part(window, part.number);
  return memory.rows(part.array.windows[window].begin, part.array.windows[window].count);
}

Tensor StateArrays::master(std::size_t window, const parallel::UnitStorage& storage) const {
  return part_of(window, master_, storage.parameters());
}

Tensor StateArrays::state(std::size_t window, std::size_t number) const {
  return part_of(window, state_[number], state_[number].memory);
}

void fill_zero(ops::Backend& backend, const Tensor& x) {
  if (x.empty()) return;
  backend.run(ops::Fill{x.dtype == DType::uint8 ? Tensor(x.data, DType::float32, {x.num_elements() / 4}) : x, 0.0F});
}

}  // namespace sft::optim
