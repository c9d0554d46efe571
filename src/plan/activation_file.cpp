// SPDX-License-Identifier: Apache-2.0
#include "activation_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <fmt/core.h>
#include <chrono>
#include <system_error>
#include <utility>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"

namespace sft::plan {

namespace {

io::UnnamedFile make_file(const std::string& folder) {
  io::make_folders(folder);
  try {
    return io::UnnamedFile(folder);
  } catch (const std::system_error& error) {
    throw_config_error(fmt::format("cannot offload activations to `{}`", folder), error.code().message(),
                       "set train.offload_folder to a folder that you may write");
  }
}

}  // namespace

ActivationFile::ActivationFile(const std::string& folder, int num_places, std::size_t place_bytes,
                               device::Device& device)
    : folder_(folder), place_bytes_(place_bytes), device_(device), file_(make_file(folder)), num_pending_(num_places) {
  const std::size_t all_bytes = static_cast<std::size_t>(num_places) * place_bytes;
  try {
    file_.reserve(all_bytes);
  } catch (const std::system_error& error) {
    throw_config_error(fmt::format("cannot offload activations to `{}`", folder),
                       fmt::format("a rank needs {} there: {}", format_bytes(all_bytes), error.code().message()),
                       "set train.offload_folder to a disk with more room, or activation_offload = false");
  }
  struct statfs disk {};
  if (::fstatfs(file_.descriptor(), &disk) == 0 && disk.f_type == TMPFS_MAGIC) {
    log_warning(
        fmt::format("activations offloaded to `{}` stay in memory: that folder is a tmpfs; set train.offload_folder to "
                    "a folder on a disk",
                    folder));
  }
  thread_ = std::thread([this] { work(); });
}

ActivationFile::~ActivationFile() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ActivationFile::save(model::BlockIndex block, const std::vector<Tensor>& tensors) {
  queue({block, tensors, true});
}
void ActivationFile::load(model::BlockIndex block, const std::vector<Tensor>& tensors) {
  queue({block, tensors, false});
}

void ActivationFile::queue(Job job) {
  SFT_ENSURE(model::place_bytes(job.tensors) <= place_bytes_, "a block's activations fit into their place");
  {
    const std::lock_guard lock(mutex_);
    ++num_pending_[job.block];
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void ActivationFile::wait(model::BlockIndex block) {
  constexpr std::chrono::microseconds between_polls(200);
  std::unique_lock lock(mutex_);
  while (num_pending_[block] > 0 && !error_) {
    changed_.wait_for(lock, between_polls);
    lock.unlock();
    device_.progress();
    lock.lock();
  }
  if (error_) std::rethrow_exception(error_);
}

void ActivationFile::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || !jobs_.empty(); });
    if (stops_) return;
    const Job job = jobs_.front();
    lock.unlock();
    std::exception_ptr error;
    try {
      run(job);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    jobs_.pop_front();
    --num_pending_[job.block];
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
}

void ActivationFile::run(const Job& job) const {
  const std::size_t begin = static_cast<std::size_t>(static_cast<int>(job.block)) * place_bytes_;
  std::size_t position = begin;
  try {
    for (const Tensor& tensor : job.tensors) {
      if (job.writes) {
        file_.write(position, tensor.size_bytes(), tensor.data);
      } else {
        file_.read(position, tensor.size_bytes(), tensor.data);
      }
      position += tensor.size_bytes();
    }
  } catch (const std::system_error& error) {
    throw Error(ExitStatus::failure,
                fmt::format("cannot {} offloaded activations in `{}`", job.writes ? "write" : "read", folder_),
                error.code().message(), "check the disk, or set activation_offload = false");
  }
  // Both are hints: what is written need not wait in memory, and what was read is not read again.
  const auto offset = static_cast<off_t>(begin), size = static_cast<off_t>(position - begin);
  if (job.writes) {
    static_cast<void>(::sync_file_range(file_.descriptor(), offset, size, SYNC_FILE_RANGE_WRITE));
  } else {
    static_cast<void>(::posix_fadvise(file_.descriptor(), offset, size, POSIX_FADV_DONTNEED));
  }
}

}  // namespace sft::plan
