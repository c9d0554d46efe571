// SPDX-License-Identifier: Apache-2.0
#include "sft/transfer/windows.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/transfer/file_mover.hpp"

namespace sft::transfer {

namespace {

/// One is worked on, one read, one written.
constexpr std::size_t max_buffers = 3;

}  // namespace

std::int64_t WindowedArray::num_elements() const {
  return std::accumulate(windows.begin(), windows.end(), std::int64_t{0});
}

Windows::Windows(std::vector<WindowedArray> arrays) : arrays_(std::move(arrays)) {
  for (std::size_t array = 0; array < arrays_.size(); ++array) shards_.emplace_back(*this, array);
}

std::vector<std::size_t> Windows::place_bytes() const {
  std::vector<std::size_t> bytes;
  for (std::size_t window = 0; window < arrays_.front().windows.size(); ++window) {
    for (const WindowedArray& array : arrays_) bytes.push_back(array.windows[window] * size_of(array.dtype));
  }
  return bytes;
}

std::vector<Tensor> Windows::places(const std::vector<Tensor>& arrays) const {
  std::vector<Tensor> places;
  std::vector<std::int64_t> begin(arrays.size());
  for (std::size_t window = 0; window < arrays_.front().windows.size(); ++window) {
    for (std::size_t array = 0; array < arrays.size(); ++array) {
      const std::int64_t count = arrays_[array].windows[window];
      places.push_back(count > 0 ? arrays[array].rows(begin[array], count) : Tensor());
      begin[array] += count;
    }
  }
  return places;
}

void Windows::lay_out(device::Arena& arena) {
  const std::size_t num_windows = arrays_.front().windows.size();
  std::vector<std::size_t> room(arrays_.size());  // of the longest window
  for (std::size_t window = 0; window < num_windows; ++window) {
    for (std::size_t a = 0; a < room.size(); ++a) {
      room[a] = std::max(room[a], room_bytes(arrays_[a].windows[window] * size_of(arrays_[a].dtype)));
    }
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

void Windows::open(std::unique_ptr<Mover> mover, device::Device& device, device::Stream& compute) {
  mover_ = std::move(mover);
  device_ = &device;
  compute_ = &compute;
}

Windows::Buffer* Windows::find(std::size_t window) {
  const auto found = std::ranges::find(buffers_, window, &Buffer::window);
  return found == buffers_.end() ? nullptr : &*found;
}

Windows::Buffer& Windows::free_buffer(std::size_t window) {
  const auto is_free = [](const Buffer& buffer) {
    return buffer.status == Buffer::Status::idle || buffer.status == Buffer::Status::writing;
  };
  Buffer* free = find(window);  // its write must be over before the file is read
  for (Buffer& buffer : buffers_) {
    if (free != nullptr && free->window == window) break;
    if (is_free(buffer) && (free == nullptr || buffer.used_at < free->used_at)) free = &buffer;
  }
  SFT_ENSURE(free != nullptr && is_free(*free), "a buffer is free");
  if (free->status == Buffer::Status::writing) mover_->reads_follow(number_of(*free));
  free->status = Buffer::Status::idle;
  return *free;
}

std::size_t Windows::number_of(const Buffer& buffer) const {
  return static_cast<std::size_t>(&buffer - buffers_.data());
}

Tensor Windows::part_of(const Buffer& buffer, std::size_t array) const {
  return {buffer.parts[array], arrays_[array].dtype, {arrays_[array].windows[buffer.window]}};
}

std::vector<Move> Windows::moves_of(const Buffer& buffer) const {
  std::vector<Move> moves;
  for (std::size_t a = 0; a < arrays_.size(); ++a) {
    if (buffer.only_array != all_arrays && buffer.only_array != a) continue;
    if (arrays_[a].windows[buffer.window] == 0) continue;
    moves.push_back({.place = buffer.window * arrays_.size() + a, .memory = part_of(buffer, a)});
  }
  return moves;
}

void Windows::start_reading(std::size_t window, std::size_t only_array) {
  Buffer& buffer = free_buffer(window);
  buffer.window = window;
  buffer.only_array = only_array;
  buffer.status = Buffer::Status::reading;
  buffer.used_at = ++clock_;
  mover_->read(number_of(buffer), moves_of(buffer));
}

void Windows::finish_reading(Buffer& buffer) {
  mover_->finish(number_of(buffer), *compute_);
  buffer.status = Buffer::Status::in_use;
}

void Windows::start_writing(Buffer& buffer) {
  buffer.status = Buffer::Status::writing;
  mover_->write(number_of(buffer), moves_of(buffer));
}

void Windows::prefetch(std::size_t window) {
  close_view();
  const Buffer* buffer = find(window);
  const bool is_coming = buffer != nullptr && buffer->status == Buffer::Status::reading;
  if (!is_coming) start_reading(window, all_arrays);
}

void Windows::use(std::size_t window) {
  prefetch(window);
  finish_reading(*find(window));
}

Windows::Buffer& Windows::in_use(std::size_t window) {
  Buffer* buffer = find(window);
  SFT_ENSURE(buffer != nullptr && buffer->status == Buffer::Status::in_use, "a window is read before it is used");
  return *buffer;
}

Tensor Windows::part(std::size_t window, std::size_t array) { return part_of(in_use(window), array); }

void Windows::done(std::size_t window) { start_writing(in_use(window)); }

void Windows::drain() noexcept {
  if (mover_) mover_->drain();
}

Tensor Windows::view(std::size_t window, std::size_t array, bool modify) {
  const Buffer* viewed = viewed_window_ == no_window ? nullptr : find(viewed_window_);
  if (viewed == nullptr || viewed_window_ != window || viewed->only_array != array) {
    close_view();
    start_reading(window, array);
    finish_reading(*find(window));
    viewed_window_ = window;
  }
  is_view_modified_ = is_view_modified_ || modify;
  return part(window, array);
}

void Windows::close_view() {
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

void Windows::copy(const Tensor& to, const ConstTensor& from) {
  device_->copy(to.data, from.data, from.size_bytes(), *compute_);
  compute_->synchronize();
}

template <class Visit>
void Windows::for_each_window(const WindowedArray& array, std::int64_t begin, std::int64_t count, const Visit& visit) {
  std::int64_t window_begin = 0, done = 0;
  for (std::size_t w = 0; done < count; ++w) {
    SFT_ENSURE(w < array.windows.size(), "elements lie in their array");
    const std::int64_t window_end = window_begin + array.windows[w];
    const std::int64_t part = std::min(begin + count, window_end) - (begin + done);
    if (part > 0) {
      visit(w, begin + done - window_begin, part, done);
      done += part;
    }
    window_begin = window_end;
  }
}

void Windows::Shard::read(std::int64_t begin, const Tensor& values) {
  SFT_ENSURE(values.dtype == dtype() && values.is_contiguous(), "offloaded numbers are read as they are stored");
  for_each_window(array(), begin, values.num_elements(), [&](auto window, auto within, auto count, auto before) {
    const Tensor from = all_.view(window, number_, /*modify=*/false).rows(within, count);
    all_.copy(values.rows(before, count), from);
  });
}

void Windows::Shard::write(std::int64_t begin, const ConstTensor& values) {
  SFT_ENSURE(values.dtype == dtype() && values.is_contiguous(), "offloaded numbers are written as they are stored");
  for_each_window(array(), begin, values.num_elements(), [&](auto window, auto within, auto count, auto before) {
    const Tensor to = all_.view(window, number_, /*modify=*/true).rows(within, count);
    all_.copy(to, values.rows(before, count));
  });
}

void Windows::Shard::clear() {
  for (std::size_t w = 0; w < array().windows.size(); ++w) {
    if (array().windows[w] == 0) continue;
    const Tensor all = all_.view(w, number_, /*modify=*/true);
    all_.device_->fill_zero(all.data, all.size_bytes(), *all_.compute_);
    all_.compute_->synchronize();
  }
}

}  // namespace sft::transfer
