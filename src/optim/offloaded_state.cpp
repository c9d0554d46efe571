// SPDX-License-Identifier: Apache-2.0
#include "offloaded_state.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "file_transfers.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/direct_file.hpp"

namespace sft::optim {

namespace {

/// One is worked on, one read, one written.
constexpr std::size_t max_buffers = 3;

}  // namespace

OffloadedState::OffloadedState(std::vector<StateArray> arrays) : arrays_(std::move(arrays)) {
  for (std::size_t p = 0; p < arrays_.size(); ++p) shards_.emplace_back(*this, p);
}

void OffloadedState::lay_out(device::Arena& arena) {
  const std::size_t num_windows = arrays_.front().windows.size();
  std::vector<std::size_t> room(arrays_.size());  // of the longest window
  for (std::size_t window = 0; window < num_windows; ++window) {
    for (std::size_t p = 0; p < room.size(); ++p) room[p] = std::max(room[p], room_bytes(arrays_[p], window));
  }
  const std::size_t buffer_bytes = std::accumulate(room.begin(), room.end(), std::size_t{0});
  const std::size_t num_buffers = std::min(max_buffers, num_windows);
  // The arena aligns to less than a block.
  constexpr std::size_t block = io::direct_alignment_bytes;
  const auto address =
      reinterpret_cast<std::uintptr_t>(arena.take(num_buffers * buffer_bytes + block - device::Arena::alignment_bytes));
  auto* at = reinterpret_cast<char*>(round_up(address, block));
  buffers_.assign(num_buffers, {});
  for (Buffer& buffer : buffers_) {
    for (const std::size_t bytes : room) {
      buffer.parts.push_back(at);
      at += bytes;
    }
  }
}

void OffloadedState::open(std::unique_ptr<StateTransfers> transfers, device::Device& device,
                          device::Stream& compute_stream) {
  transfers_ = std::move(transfers);
  device_ = &device;
  compute_stream_ = &compute_stream;
}

OffloadedState::Buffer* OffloadedState::find(std::size_t window) {
  const auto found = std::ranges::find(buffers_, window, &Buffer::window);
  return found == buffers_.end() ? nullptr : &*found;
}

OffloadedState::Buffer& OffloadedState::free_buffer(std::size_t window) {
  const auto is_free = [](const Buffer& buffer) {
    return buffer.status == Buffer::Status::idle || buffer.status == Buffer::Status::writing;
  };
  Buffer* free = find(window);  // its write must be over before the file is read
  for (Buffer& buffer : buffers_) {
    if (free != nullptr && free->window == window) break;
    if (is_free(buffer) && (free == nullptr || buffer.used_at < free->used_at)) free = &buffer;
  }
  SFT_ENSURE(free != nullptr && is_free(*free), "a buffer of the optimizer's state is free");
  if (free->status == Buffer::Status::writing) transfers_->finish_writing(number_of(*free));
  free->status = Buffer::Status::idle;
  return *free;
}

std::size_t OffloadedState::number_of(const Buffer& buffer) const {
  return static_cast<std::size_t>(&buffer - buffers_.data());
}

Tensor OffloadedState::part_of(const Buffer& buffer, std::size_t part) const {
  return {buffer.parts[part], arrays_[part].dtype, {arrays_[part].windows[buffer.window].count}};
}

std::vector<StateTransfers::Transfer> OffloadedState::transfers_of(const Buffer& buffer) const {
  std::vector<StateTransfers::Transfer> transfers;
  for (std::size_t p = 0; p < arrays_.size(); ++p) {
    if (buffer.only_part != all_parts && buffer.only_part != p) continue;
    if (arrays_[p].windows[buffer.window].count == 0) continue;
    transfers.push_back({buffer.window, p, part_of(buffer, p)});
  }
  return transfers;
}

void OffloadedState::start_reading(std::size_t window, std::size_t only_part) {
  Buffer& buffer = free_buffer(window);
  buffer.window = window;
  buffer.only_part = only_part;
  buffer.status = Buffer::Status::reading;
  buffer.used_at = ++clock_;
  transfers_->start_reading(number_of(buffer), transfers_of(buffer));
}

void OffloadedState::finish_reading(Buffer& buffer) {
  transfers_->finish_reading(number_of(buffer));
  buffer.status = Buffer::Status::in_use;
}

void OffloadedState::start_writing(Buffer& buffer) {
  buffer.status = Buffer::Status::writing;
  transfers_->start_writing(number_of(buffer), transfers_of(buffer));
}

void OffloadedState::prefetch(std::size_t window) {
  close_view();
  const Buffer* buffer = find(window);
  const bool is_coming = buffer != nullptr && buffer->status == Buffer::Status::reading;
  if (!is_coming) start_reading(window, all_parts);
}

void OffloadedState::use(std::size_t window) {
  prefetch(window);
  finish_reading(*find(window));
}

OffloadedState::Buffer& OffloadedState::in_use(std::size_t window) {
  Buffer* buffer = find(window);
  SFT_ENSURE(buffer != nullptr && buffer->status == Buffer::Status::in_use, "a window is read before it is used");
  return *buffer;
}

Tensor OffloadedState::part(std::size_t window, std::size_t part) { return part_of(in_use(window), part); }

void OffloadedState::done(std::size_t window) { start_writing(in_use(window)); }

void OffloadedState::drain() noexcept {
  if (transfers_) transfers_->drain();
}

Tensor OffloadedState::view(std::size_t window, std::size_t part, bool modify) {
  const Buffer* viewed = viewed_window_ == no_window ? nullptr : find(viewed_window_);
  if (viewed == nullptr || viewed_window_ != window || viewed->only_part != part) {
    close_view();
    start_reading(window, part);
    finish_reading(*find(window));
    viewed_window_ = window;
  }
  is_view_modified_ = is_view_modified_ || modify;
  return this->part(window, part);
}

void OffloadedState::close_view() {
  if (viewed_window_ == no_window) return;
  Buffer& buffer = *find(viewed_window_);
  viewed_window_ = no_window;
  if (is_view_modified_) {
    start_writing(buffer);
  } else {
    buffer.status = Buffer::Status::idle;
  }
  is_view_modified_ = false;
}

void OffloadedState::copy(const Tensor& to, const Tensor& from) {
  device_->copy(to.data, from.data, from.size_bytes(), *compute_stream_);
  compute_stream_->synchronize();
}

template <class Visit>
void OffloadedState::for_each_window(const StateArray& array, std::int64_t begin, std::int64_t count,
                                     const Visit& visit) {
  const std::vector<parallel::ShardRange>& windows = array.windows;
  const auto starts_behind = [](std::int64_t element, const parallel::ShardRange& window) {
    return element < window.begin;
  };
  const auto first = std::upper_bound(windows.begin(), windows.end(), begin, starts_behind) - windows.begin() - 1;
  std::int64_t before = 0;
  for (auto w = static_cast<std::size_t>(std::max<std::ptrdiff_t>(first, 0)); before < count; ++w) {
    SFT_ENSURE(w < windows.size(), "elements of the optimizer's state lie in its array");
    const std::int64_t within = begin + before - windows[w].begin;
    const std::int64_t part = std::min(count - before, windows[w].count - within);
    if (part > 0) visit(w, within, part, before);
    before += std::max<std::int64_t>(part, 0);
  }
}

void OffloadedState::Shard::read(std::int64_t begin, const Tensor& values) {
  SFT_ENSURE(values.dtype == dtype() && values.is_contiguous(), "offloaded numbers are read as they are stored");
  for_each_window(array(), begin, values.num_elements(), [&](auto window, auto within, auto count, auto before) {
    const Tensor from = state_.view(window, part_, /*modify=*/false).rows(within, count);
    state_.copy(values.rows(before, count), from);
  });
}

void OffloadedState::Shard::write(std::int64_t begin, const Tensor& values) {
  SFT_ENSURE(values.dtype == dtype() && values.is_contiguous(), "offloaded numbers are written as they are stored");
  for_each_window(array(), begin, values.num_elements(), [&](auto window, auto within, auto count, auto before) {
    const Tensor to = state_.view(window, part_, /*modify=*/true).rows(within, count);
    state_.copy(to, values.rows(before, count));
  });
}

void OffloadedState::Shard::clear() {
  for (std::size_t w = 0; w < array().windows.size(); ++w) {
    if (array().windows[w].count == 0) continue;
    const Tensor all = state_.view(w, part_, /*modify=*/true);
    state_.device_->fill_zero(all.data, all.size_bytes(), *state_.compute_stream_);
    state_.compute_stream_->synchronize();
  }
}

}  // namespace sft::optim
