// SPDX-License-Identifier: Apache-2.0
// Transfers by io_uring: the kernel reads and writes while the caller computes.

#include <liburing.h>

#include <array>
#include <cerrno>
#include <vector>

#include "transfer_queue.hpp"

namespace sft::io {

namespace {

constexpr unsigned max_transfers = 64;  ///< under way at a time

class UringQueue : public TransferQueue {
 public:
  UringQueue(int descriptor, const io_uring& ring) : descriptor_(descriptor), ring_(ring) {
    for (Transfer& slot : slots_) free_slots_.push_back(&slot);
  }
  ~UringQueue() override {
    drain();
    io_uring_queue_exit(&ring_);
  }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  void start(const Transfer& transfer) override {
    while (free_slots_.empty()) reap();
    Transfer* slot = free_slots_.back();
    free_slots_.pop_back();
    *slot = transfer;
    ++num_pending(*transfer.batch);
    submit(slot);
  }

  bool wait(const TransferBatch& batch, std::chrono::microseconds most) override {
    if (!is_done(batch)) reap(most);
    return is_done(batch);
  }

  void drain() noexcept override {
    while (free_slots_.size() < slots_.size()) reap();
  }

 private:
  /// Asks the kernel for what is left of a transfer.
  void submit(Transfer* slot) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);  // there is one: the ring has as many as there are slots
    const auto size = static_cast<unsigned>(slot->size);
    if (slot->is_write()) {
      io_uring_prep_write(entry, descriptor_, slot->write_from, size, slot->at);
    } else {
      io_uring_prep_read(entry, descriptor_, slot->read_to, size, slot->at);
    }
    io_uring_sqe_set_data(entry, slot);
    int result = 0;
    do {
      result = io_uring_submit(&ring_);
    } while (result == -EINTR || result == -EAGAIN || result == -EBUSY);
    if (result < 0) release(slot, -result);
  }

  /// Takes a transfer that the kernel has finished; waits for one, for `most` at a time.
  void reap(std::chrono::microseconds most = std::chrono::seconds(1)) noexcept {
    io_uring_cqe* completion = nullptr;
    __kernel_timespec timeout{.tv_sec = most.count() / 1'000'000, .tv_nsec = most.count() % 1'000'000 * 1000};
    const int result = io_uring_wait_cqe_timeout(&ring_, &completion, &timeout);
    if (result < 0) {
      if (result != -EINTR && result != -EAGAIN && result != -ETIME) fail_all(-result);
      return;
    }
    auto* slot = static_cast<Transfer*>(io_uring_cqe_get_data(completion));
    const int count = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    if (count == -EINTR || count == -EAGAIN) {
      submit(slot);
    } else if (count <= 0) {
      release(slot, count < 0 ? -count : EIO);  // 0: the file ends too early
    } else if (static_cast<std::size_t>(count) < slot->size) {
      slot->at += static_cast<std::uint64_t>(count);
      (slot->is_write() ? slot->write_from += count : slot->read_to += count);
      slot->size -= static_cast<std::size_t>(count);
      submit(slot);
    } else {
      release(slot, 0);
    }
  }

  void release(Transfer* slot, int error) noexcept {
    finish(*slot, error);
    slot->batch = nullptr;
    free_slots_.push_back(slot);
  }

  /// The ring itself is broken.
  void fail_all(int error) noexcept {
    for (Transfer& slot : slots_) {
      if (slot.batch != nullptr) release(&slot, error);
    }
  }

  int descriptor_;
  io_uring ring_;
  std::array<Transfer, max_transfers> slots_{};
  std::vector<Transfer*> free_slots_;
};

}  // namespace

std::unique_ptr<TransferQueue> make_uring_queue(int descriptor) {
  io_uring ring{};
  if (io_uring_queue_init(max_transfers, &ring, 0) < 0) return nullptr;
  return std::make_unique<UringQueue>(descriptor, ring);
}

}  // namespace sft::io
