// SPDX-License-Identifier: Apache-2.0
#include "sft/io/transfer_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <fmt/core.h>
#include <cstring>
#include <system_error>
#include <utility>

#include "sft/core/ensure.hpp"
#include "sft/core/format.hpp"
#include "sft/io/files.hpp"
#include "sft/io/unnamed_file.hpp"
#include "transfer_queue.hpp"

namespace sft::io {

TransferQueue::Failure TransferQueue::take_failure(TransferBatch& batch) {
  return {std::exchange(batch.read_error_, 0), std::exchange(batch.write_error_, 0)};
}

void TransferQueue::finish(const Transfer& transfer, int error) {
  TransferBatch& batch = *transfer.batch;
  --batch.num_pending_;
  int& first = transfer.is_write() ? batch.write_error_ : batch.read_error_;
  if (first == 0) first = error;
}

TransferFile::TransferFile(std::string folder, std::uint64_t size_bytes, FileUse use, FileCache cache,
                           TransferMethod method)
    : folder_(std::move(folder)), use_(std::move(use)), cache_(cache) {
  require_aligned(0, size_bytes, nullptr);
  make_folders(folder_);
  const std::string problem = fmt::format("cannot offload {} to `{}`", use_.what, folder_);
  try {
    file_ = std::make_unique<UnnamedFile>(folder_);
  } catch (const std::system_error& error) {
    throw Error(use_.refused, problem, error.code().message(),
                "set train.offload_folder to a folder that you may write");
  }
  try {
    file_->reserve(size_bytes);
  } catch (const std::system_error& error) {
    throw Error(use_.refused, problem,
                fmt::format("a rank needs {} there: {}", format_bytes(size_bytes), error.code().message()),
                fmt::format("set train.offload_folder to a disk with more room, or {}", use_.instead));
  }
  const int descriptor = file_->descriptor();
  if (cache_ == FileCache::bypassed) {
    is_direct_ = ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_DIRECT) == 0;
    if (method == TransferMethod::automatic) queue_ = make_uring_queue(descriptor);
  }
  uses_io_uring_ = queue_ != nullptr;
  if (!queue_) queue_ = make_thread_queue(descriptor, cache_);
}

TransferFile::~TransferFile() = default;

bool TransferFile::is_memory() const {
  struct statfs disk {};
  return ::fstatfs(file_->descriptor(), &disk) == 0 && disk.f_type == TMPFS_MAGIC;
}

void TransferFile::require_aligned(std::uint64_t at, std::size_t size, const void* bytes) const {
  if (cache_ == FileCache::used) return;
  const auto address = reinterpret_cast<std::uintptr_t>(bytes);
  SFT_ENSURE((at | size | address) % direct_alignment_bytes == 0, "direct I/O is aligned");
}

void TransferFile::read(TransferBatch& batch, std::uint64_t at, std::size_t size, void* bytes) {
  require_aligned(at, size, bytes);
  if (size > 0) queue_->start({.batch = &batch, .at = at, .size = size, .read_to = static_cast<char*>(bytes)});
}

void TransferFile::write(TransferBatch& batch, std::uint64_t at, std::size_t size, const void* bytes) {
  require_aligned(at, size, bytes);
  if (size > 0) queue_->start({.batch = &batch, .at = at, .size = size, .write_from = static_cast<const char*>(bytes)});
}

void TransferFile::wait(TransferBatch& batch, const std::function<void()>& meanwhile) {
  while (!queue_->wait(batch, std::chrono::microseconds(200))) meanwhile();
  const TransferQueue::Failure failure = TransferQueue::take_failure(batch);
  const auto refuse_if = [&](int error, const char* verb) {
    if (error == 0) return;
    throw Error(use_.failed, fmt::format("cannot {} offloaded {} in `{}`", verb, use_.what, folder_),
                std::strerror(error), fmt::format("check the disk, or set {}", use_.instead));
  };
  refuse_if(failure.read_error, "read");
  refuse_if(failure.write_error, "write");
}

void TransferFile::drain() noexcept { queue_->drain(); }

}  // namespace sft::io
