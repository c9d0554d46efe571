// SPDX-License-Identifier: Apache-2.0
#pragma once
// A private file on a fast disk that takes the place of memory: read and written in the background.
//
// Transfers go through io_uring, or through a thread where the kernel refuses it, as many containers' rules make it do.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sft/core/error.hpp"

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

/// Whether transfers go past the system's file cache.
enum class FileCache {
  bypassed,  ///< they cost no memory but the caller's; all that is moved is aligned to direct_alignment_bytes
  used,      ///< the system is asked to write at once, and to forget what was read
};

/// Who carries out transfers: io_uring if there is one and the cache is bypassed, or always a thread.
enum class TransferMethod { automatic, thread };

/// What errors say of a file.
struct FileUse {
  std::string what;     ///< that it holds: "the optimizer's state"
  std::string instead;  ///< a key of the configuration that needs no file: "offload_optimizer = none"
  ExitStatus refused = ExitStatus::data, failed = ExitStatus::data;  ///< when it is made, and later
};

/// Not safe for several threads. Errors name the folder and say why.
class TransferFile {
 public:
  /// Makes a file of `size_bytes` zeros on the disk of `folder`, which is made where it is missing. Its room is taken
  /// at once, and it has no name: the system removes it when the process ends, however it ends. size_bytes is a
  /// multiple of direct_alignment_bytes where the cache is bypassed.
  TransferFile(std::string folder, std::uint64_t size_bytes, FileUse use, FileCache cache = FileCache::bypassed,
               TransferMethod method = TransferMethod::automatic);
  /// Waits for what is under way.
  ~TransferFile();
  TransferFile(const TransferFile&) = delete;
  TransferFile& operator=(const TransferFile&) = delete;

  /// Starts reading `size` bytes from `at` on into `bytes`. The memory is the file's until wait(batch).
  void read(TransferBatch& batch, std::uint64_t at, std::size_t size, void* bytes);
  /// Starts writing `size` bytes from `bytes` to `at` on, under the rules of read(). Transfers of the same part of the
  /// file are in no order: wait for the first.
  void write(TransferBatch& batch, std::uint64_t at, std::size_t size, const void* bytes);
  /// Returns when the transfers of `batch` are done; throws when one failed. Calls `meanwhile` again and again until
  /// then, at least every 200 us.
  void wait(TransferBatch& batch, const std::function<void()>& meanwhile);
  /// Waits for all transfers, whatever became of them.
  void drain() noexcept;

  /// Whether transfers go past the file cache; some file systems have no such thing.
  [[nodiscard]] bool is_direct() const { return is_direct_; }
  /// Whether the folder's disk is the node's memory: a tmpfs.
  [[nodiscard]] bool is_memory() const;
  [[nodiscard]] bool uses_io_uring() const { return uses_io_uring_; }

 private:
  void require_aligned(std::uint64_t at, std::size_t size, const void* bytes) const;

  std::string folder_;
  FileUse use_;
  FileCache cache_;
  std::unique_ptr<UnnamedFile> file_;
  bool is_direct_ = false, uses_io_uring_ = false;
  std::unique_ptr<TransferQueue> queue_;  ///< ends before the file
};

}  // namespace sft::io
