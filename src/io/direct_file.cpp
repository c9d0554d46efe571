// SPDX-License-Identifier: Apache-2.0
#include "sft/io/direct_file.hpp"

#include <fcntl.h>

#include <fmt/core.h>
#include <cstring>
#include <system_error>
#include <utility>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/io/unnamed_file.hpp"
#include "transfer_queue.hpp"

namespace sft::io {

namespace {

[[noreturn]] void throw_errno(const std::string& problem, int error, const std::string& what_to_do) {
  throw_data_error(problem, std::strerror(error), what_to_do);
}

void require_aligned(std::uint64_t at, std::size_t size, const void* bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes);
  SFT_ENSURE((at | size | address) % direct_alignment_bytes == 0, "direct I/O is aligned");
}

}  // namespace

TransferQueue::Failure TransferQueue::take_failure(TransferBatch& batch) {
  return {std::exchange(batch.read_error_, 0), std::exchange(batch.write_error_, 0)};
}

void TransferQueue::finish(const Transfer& transfer, int error) {
  TransferBatch& batch = *transfer.batch;
  --batch.num_pending_;
  int& first = transfer.is_write ? batch.write_error_ : batch.read_error_;
  if (first == 0) first = error;
}

DirectFile::DirectFile(std::string folder, std::uint64_t size_bytes, TransferMethod method)
    : folder_(std::move(folder)) {
  SFT_ENSURE(size_bytes % direct_alignment_bytes == 0, "a direct file has whole blocks");
  make_folders(folder_);
  try {
    file_ = std::make_unique<UnnamedFile>(folder_);
  } catch (const std::system_error& error) {
    throw_errno("cannot make a file in " + folder_, error.code().value(),
                "choose a folder on a disk that you may write");
  }
  try {
    file_->reserve(size_bytes);
  } catch (const std::system_error& error) {
    throw_errno(fmt::format("cannot make a file of {} bytes in {}", size_bytes, folder_), error.code().value(),
                "free space there, or choose a folder on another disk");
  }
  const int descriptor = file_->descriptor();
  is_direct_ = ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_DIRECT) == 0;
  if (method == TransferMethod::automatic) queue_ = make_uring_queue(descriptor);
  uses_io_uring_ = queue_ != nullptr;
  if (!queue_) queue_ = make_thread_queue(descriptor);
}

DirectFile::~DirectFile() = default;

void DirectFile::read(TransferBatch& batch, std::uint64_t at, std::size_t size, void* bytes) {
  require_aligned(at, size, bytes);
  if (size > 0) queue_->start({&batch, /*is_write=*/false, at, size, static_cast<char*>(bytes)});
}

void DirectFile::write(TransferBatch& batch, std::uint64_t at, std::size_t size, const void* bytes) {
  require_aligned(at, size, bytes);
  // Only read from: a Transfer has one kind of address for both directions.
  if (size > 0) queue_->start({&batch, /*is_write=*/true, at, size, static_cast<char*>(const_cast<void*>(bytes))});
}

void DirectFile::wait(TransferBatch& batch) {
  queue_->wait(batch);
  const TransferQueue::Failure failure = TransferQueue::take_failure(batch);
  const std::string name = "the file of offloaded state in " + folder_;
  if (failure.read_error != 0) throw_errno("cannot read " + name, failure.read_error, "check the disk");
  if (failure.write_error != 0) throw_errno("cannot write " + name, failure.write_error, "check the disk");
}

void DirectFile::drain() noexcept { queue_->drain(); }

}  // namespace sft::io
