// SPDX-License-Identifier: Apache-2.0
#pragma once
// A queue between a thread that reads and its user, which holds so many bytes.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft {

template <class T>
class ReadAhead {
 public:
  /// What the thread does: calls push(make) for each item in order, make() giving the item, until push returns false.
  using Push = std::function<bool(const std::function<T()>& make)>;
  using Work = std::function<void(const Push& push)>;

  /// The thread makes an item when all items that wait together, and one of `max_item_bytes` more, take `max_bytes` at
  /// most, as bytes_of(item) says. It starts at once; what `work` uses outlives the object.
  ReadAhead(std::size_t max_bytes, std::size_t max_item_bytes, std::function<std::size_t(const T&)> bytes_of, Work work)
      : room_bytes_(max_bytes - max_item_bytes), bytes_of_(std::move(bytes_of)), work_(std::move(work)) {
    SFT_ENSURE(max_item_bytes <= max_bytes, "the queue has room for one item");
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  /// The next item; blocks while the thread makes it. An error of the thread is rethrown where its item would come, and
  /// on every call after that. Throws std::logic_error past the last item.
  T next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !items_.empty() || finished_; });
    if (items_.empty()) {
      if (error_) std::rethrow_exception(error_);
      SFT_ENSURE(false, "the loader is not asked for a step past its last");
    }
    auto [item, num_bytes] = std::move(items_.front());
    items_.pop_front();
    waiting_bytes_ -= num_bytes;
    changed_.notify_all();
    return std::move(item);
  }

 private:
  void run(const std::stop_token& stop) {
    try {
      work_([&](const std::function<T()>& make) { return push(make, stop); });
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  bool push(const std::function<T()>& make, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return waiting_bytes_ <= room_bytes_; })) return false;
    lock.unlock();
    T item = make();
    const std::size_t num_bytes = bytes_of_(item);
    lock.lock();
    items_.emplace_back(std::move(item), num_bytes);
    waiting_bytes_ += num_bytes;
    changed_.notify_all();
    return true;
  }

  const std::size_t room_bytes_;  ///< an item is made while no more wait
  const std::function<std::size_t(const T&)> bytes_of_;
  const Work work_;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable_any changed_;
  std::deque<std::pair<T, std::size_t>> items_;
  std::size_t waiting_bytes_ = 0;
  bool finished_ = false;
  std::exception_ptr error_;

  std::jthread thread_;  ///< last: it stops and joins before what it uses is gone
};

}  // namespace sft
