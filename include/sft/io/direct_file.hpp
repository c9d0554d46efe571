// SPDX-License-Identifier: Apache-2.0
#pragma once
// A private file on a fast disk that takes the place of memory: read and written in the background, past the system's
// file cache, so that it costs no memory but the caller's buffers.
//
// Transfers go through io_uring, or through a thread where the kernel refuses it, as many containers' rules make it do.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sft::io {

/// What addresses, positions and sizes of direct I/O must be multiples of: the largest block of today's disks.
inline constexpr std::size_t direct_alignment_bytes = 4096;

/// Transfers that are waited for together. It must outlive them, and stays where it is.
class TransferBatch {
 public:
  TransferBatch() = default;
  TransferBatch(const TransferBatch&) = delete;
  TransferBatch& operator=(const TransferBatch&) = delete;

 private:
  friend class TransferQueue;
  std::int64_t num_pending_ = 0;
  int read_error_ = 0, write_error_ = 0;  ///< errno of the first that failed; 0: none did
};

class TransferQueue;
class UnnamedFile;

/// Who carries out transfers: io_uring if there is one, or always a thread.
enum class TransferMethod { automatic, thread };

/// Not safe for several threads. Errors are data Errors that name the folder and say why.
class DirectFile {
 public:
  /// Makes a file of `size_bytes` zeros on the disk of `folder`, which is made where it is missing. Its room is taken
  /// at once, and it has no name: the system removes it when the process ends, however it ends. size_bytes is a
  /// multiple of direct_alignment_bytes.
  DirectFile(std::string folder, std::uint64_t size_bytes, TransferMethod method = TransferMethod::automatic);
  /// Waits for what is under way.
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  /// Starts reading `size` bytes from `at` on into `bytes`. All three and the address are multiples of
  /// direct_alignment_bytes, and the memory is the file's until wait(batch).
  void read(TransferBatch& batch, std::uint64_t at, std::size_t size, void* bytes);
  /// Starts writing `size` bytes from `bytes` to `at` on, under the rules of read(). Transfers of the same part of the
  /// file are in no order: wait for the first.
  void write(TransferBatch& batch, std::uint64_t at, std::size_t size, const void* bytes);
  /// Returns when the transfers of `batch` are done; throws when one failed.
  void wait(TransferBatch& batch);
  /// Waits for all transfers, whatever became of them.
  void drain() noexcept;

  /// Whether transfers go past the file cache; some file systems have no such thing.
  [[nodiscard]] bool is_direct() const { return is_direct_; }
  [[nodiscard]] bool uses_io_uring() const { return uses_io_uring_; }

 private:
  std::string folder_;
  std::unique_ptr<UnnamedFile> file_;
  bool is_direct_ = false, uses_io_uring_ = false;
  std::unique_ptr<TransferQueue> queue_;  ///< ends before the file
};

}  // namespace sft::io
