// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who carries out the transfers of a TransferFile.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "sft/io/transfer_file.hpp"

namespace sft::io {

/// `size` bytes at `at` of the file, read to memory or written from it: one of the two is null.
struct Transfer {
  TransferBatch* batch;
  std::uint64_t at;
  std::size_t size;
  char* read_to = nullptr;
  const char* write_from = nullptr;

  [[nodiscard]] bool is_write() const { return write_from != nullptr; }
};

class TransferQueue {
 public:
  virtual ~TransferQueue() = default;
  /// Starts the transfer and counts it in its batch.
  virtual void start(const Transfer& transfer) = 0;
  /// Waits until none of the batch is pending, for `most` or somewhat longer; returns whether that is so.
  [[nodiscard]] virtual bool wait(const TransferBatch& batch, std::chrono::microseconds most) = 0;
  /// Returns when nothing is pending.
  virtual void drain() noexcept = 0;

  /// errno of the batch's first transfer that failed, 0: none did; it is forgotten.
  struct Failure {
    int read_error, write_error;
  };
  [[nodiscard]] static Failure take_failure(TransferBatch& batch);

 protected:
  static std::int64_t& num_pending(TransferBatch& batch) { return batch.num_pending_; }
  static bool is_done(const TransferBatch& batch) { return batch.num_pending_ == 0; }
  /// One transfer less; `error`: errno or 0.
  static void finish(const Transfer& transfer, int error);
};

/// Null where the kernel has no io_uring for this process.
[[nodiscard]] std::unique_ptr<TransferQueue> make_uring_queue(int descriptor);
[[nodiscard]] std::unique_ptr<TransferQueue> make_thread_queue(int descriptor, FileCache cache);

}  // namespace sft::io
