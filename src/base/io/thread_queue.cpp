// SPDX-License-Identifier: Apache-2.0
// Transfers by a thread, one after the other.

#include <fcntl.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "descriptor.hpp"
#include "transfer_queue.hpp"

namespace sft::io {

namespace {

class ThreadQueue : public TransferQueue {
 public:
  ThreadQueue(int descriptor, FileCache cache) : descriptor_(descriptor), cache_(cache), thread_([this] { work(); }) {}
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
    }
    has_work_.notify_one();
    thread_.join();
  }
  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;

  void start(const Transfer& transfer) override {
    {
      const std::lock_guard lock(mutex_);
      ++num_pending(*transfer.batch);
      waiting_.push_back(transfer);
    }
    has_work_.notify_one();
  }

  bool wait(const TransferBatch& batch, std::chrono::microseconds most) override {
    std::unique_lock lock(mutex_);
    return has_finished_.wait_for(lock, most, [&] { return is_done(batch); });
  }

  void drain() noexcept override {
    std::unique_lock lock(mutex_);
    has_finished_.wait(lock, [&] { return waiting_.empty(); });
  }

 private:
  /// The first of the queue stays in it until it is done.
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      has_work_.wait(lock, [&] { return is_closing_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Transfer transfer = waiting_.front();
      lock.unlock();
      const int error = carry_out(transfer);
      if (cache_ == FileCache::used) spare_cache(transfer);
      lock.lock();
      waiting_.pop_front();
      finish(transfer, error);
      has_finished_.notify_all();
    }
  }

  [[nodiscard]] int carry_out(const Transfer& transfer) const {
    if (transfer.is_write()) {
      return write_at(descriptor_, transfer.at, transfer.size, transfer.write_from) ? 0 : errno;
    }
    const ssize_t count = read_at(descriptor_, transfer.at, transfer.size, transfer.read_to);
    if (count < 0) return errno;
    return static_cast<std::size_t>(count) < transfer.size ? EIO : 0;  // EIO: the file ends too early
  }

  /// Hints: what is written need not wait in memory, and what was read is not read again.
  void spare_cache(const Transfer& transfer) const {
    const auto at = static_cast<off_t>(transfer.at), size = static_cast<off_t>(transfer.size);
    if (transfer.is_write()) {
      static_cast<void>(::sync_file_range(descriptor_, at, size, SYNC_FILE_RANGE_WRITE));
    } else {
      static_cast<void>(::posix_fadvise(descriptor_, at, size, POSIX_FADV_DONTNEED));
    }
  }

  int descriptor_;
  FileCache cache_;
  std::mutex mutex_;  ///< of all below, and of the batches
  std::condition_variable has_work_, has_finished_;
  std::deque<Transfer> waiting_;
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TransferQueue> make_thread_queue(int descriptor, FileCache cache) {
  return std::make_unique<ThreadQueue>(descriptor, cache);
}

}  // namespace sft::io
