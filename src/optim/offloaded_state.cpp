// SPDX-License-Identifier: Apache-2.0
#include "offloaded_state.hpp"

#include <algorithm>
#include <cstring>

#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"

namespace sft::optim {

namespace {

/// One is worked on, one read, one written.
constexpr std::size_t max_buffers = 3;

std::size_t whole_blocks(std::size_t bytes) { return round_up(bytes, io::direct_alignment_bytes); }

}  // namespace

OffloadedState::OffloadedState(const std::vector<Window>& windows, const std::vector<DType>& dtypes)
    : windows_(windows), dtypes_(dtypes) {
  for (std::size_t w = 0; w < windows_.size(); ++w) {
    std::vector<std::uint64_t> offsets;
    for (std::size_t p = 0; p < dtypes_.size(); ++p) {
      offsets.push_back(file_bytes_);
      file_bytes_ += part_bytes(w, p);
    }
    file_offsets_.push_back(std::move(offsets));
  }
  for (std::size_t p = 0; p < dtypes_.size(); ++p) shards_.emplace_back(*this, p);
}

std::size_t OffloadedState::part_bytes(std::size_t window, std::size_t part) const {
  return whole_blocks(static_cast<std::size_t>(windows_[window].count) * size_of(dtypes_[part]));
}

void OffloadedState::lay_out(device::Arena& arena) {
  std::size_t most_elements = 0;
  for (const Window& window : windows_) {
    most_elements = std::max(most_elements, static_cast<std::size_t>(window.count));
  }
  std::size_t buffer_bytes = 0;
  for (const DType dtype : dtypes_) buffer_bytes += whole_blocks(most_elements * size_of(dtype));
  const std::size_t num_buffers = std::min(max_buffers, windows_.size());
  // The arena aligns to less than a block.
  const auto address = reinterpret_cast<std::uintptr_t>(
      arena.take(num_buffers * buffer_bytes + io::direct_alignment_bytes - device::Arena::alignment_bytes));
  auto* at = reinterpret_cast<char*>(whole_blocks(address));
  buffers_.clear();
  for (std::size_t b = 0; b < num_buffers; ++b) {
    Buffer& buffer = buffers_.emplace_back();
    for (const DType dtype : dtypes_) {
      buffer.parts.push_back(at);
      at += whole_blocks(most_elements * size_of(dtype));
    }
  }
}

void OffloadedState::open(const std::string& folder) { file_ = std::make_unique<io::DirectFile>(folder, file_bytes_); }

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
  ensure(free != nullptr && is_free(*free), "a buffer of the optimizer's state is free");
  if (free->status == Buffer::Status::writing) file_->wait(free->batch);
  free->status = Buffer::Status::idle;
  return *free;
}

void OffloadedState::start_reading(std::size_t window, std::size_t only_part) {
  Buffer& buffer = free_buffer(window);
  buffer.window = window;
  buffer.only_part = only_part;
  buffer.status = Buffer::Status::reading;
  buffer.used_at = ++clock_;
  for (std::size_t p = 0; p < dtypes_.size(); ++p) {
    if (only_part != all_parts && only_part != p) continue;
    file_->read(buffer.batch, file_offsets_[window][p], part_bytes(window, p), buffer.parts[p]);
  }
}

void OffloadedState::finish_reading(Buffer& buffer) {
  file_->wait(buffer.batch);
  buffer.status = Buffer::Status::in_use;
}

void OffloadedState::start_writing(Buffer& buffer) {
  buffer.status = Buffer::Status::writing;
  for (std::size_t p = 0; p < dtypes_.size(); ++p) {
    if (buffer.only_part != all_parts && buffer.only_part != p) continue;
    file_->write(buffer.batch, file_offsets_[buffer.window][p], part_bytes(buffer.window, p), buffer.parts[p]);
  }
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
  ensure(buffer != nullptr && buffer->status == Buffer::Status::in_use, "a window is read before it is used");
  return *buffer;
}

Tensor OffloadedState::part(std::size_t window, std::size_t part) {
  return {in_use(window).parts[part], dtypes_[part], {windows_[window].count}};
}

void OffloadedState::done(std::size_t window) { start_writing(in_use(window)); }

void OffloadedState::drain() noexcept {
  if (file_) file_->drain();
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

template <class Visit>
void OffloadedState::for_each_window(std::int64_t begin, std::int64_t count, const Visit& visit) const {
  const auto starts_behind = [](std::int64_t element, const Window& window) { return element < window.begin; };
  const auto first = std::upper_bound(windows_.begin(), windows_.end(), begin, starts_behind) - windows_.begin() - 1;
  std::int64_t before = 0;
  for (auto w = static_cast<std::size_t>(std::max<std::ptrdiff_t>(first, 0)); before < count; ++w) {
    ensure(w < windows_.size(), "elements of the optimizer's state lie in the rank shard");
    const std::int64_t within = begin + before - windows_[w].begin;
    const std::int64_t part = std::min(count - before, windows_[w].count - within);
    if (part > 0) visit(w, within, part, before);
    before += std::max<std::int64_t>(part, 0);
  }
}

std::int64_t OffloadedState::Shard::num_elements() const {
  return state_.windows_.empty() ? 0 : state_.windows_.back().begin + state_.windows_.back().count;
}

void OffloadedState::Shard::read(std::int64_t begin, const Tensor& values) {
  ensure(values.dtype == dtype() && values.is_contiguous(), "offloaded numbers are read as they are stored");
  state_.for_each_window(begin, values.num_elements(), [&](auto window, auto within, auto count, auto before) {
    const Tensor from = state_.view(window, part_, /*modify=*/false).rows(within, count);
    std::memcpy(values.rows(before, count).data, from.data, from.size_bytes());
  });
}

void OffloadedState::Shard::write(std::int64_t begin, const Tensor& values) {
  ensure(values.dtype == dtype() && values.is_contiguous(), "offloaded numbers are written as they are stored");
  state_.for_each_window(begin, values.num_elements(), [&](auto window, auto within, auto count, auto before) {
    const Tensor to = state_.view(window, part_, /*modify=*/true).rows(within, count);
    std::memcpy(to.data, values.rows(before, count).data, to.size_bytes());
  });
}

void OffloadedState::Shard::clear() {
  for (std::size_t w = 0; w < state_.windows_.size(); ++w) {
    const Tensor all = state_.view(w, part_, /*modify=*/true);
    std::memset(all.data, 0, all.size_bytes());
  }
}

}  // namespace sft::optim
