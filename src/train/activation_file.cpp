// SPDX-License-Identifier: Apache-2.0
#include "activation_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/device/format_bytes.hpp"
#include "sft/io/files.hpp"

namespace sft::train {

namespace {

/// Moves all `size` bytes by calls of `transfer(bytes, size, position)`, pread or pwrite. False: errno says why.
template <class Transfer>
bool move_all(std::byte* bytes, std::size_t size, std::int64_t position, const Transfer& transfer) {
  while (size > 0) {
    const ssize_t count = transfer(bytes, size, position);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = EIO;
      return false;
    }
    bytes += count;
    size -= static_cast<std::size_t>(count);
    position += count;
  }
  return true;
}

int open_unnamed(const std::string& folder) {
  io::make_folders(folder);
  std::string path = folder + "/.sft-activations-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) {
    throw_config_error("cannot offload activations to `" + folder + "`", std::strerror(errno),
                       "set train.offload_folder to a folder that you may write");
  }
  ::unlink(path.c_str());
  return descriptor;
}

}  // namespace

ActivationFile::ActivationFile(const std::string& folder, std::size_t num_places, std::size_t place_bytes,
                               device::Device& device)
    : folder_(folder),
      place_bytes_(place_bytes),
      device_(device),
      descriptor_(open_unnamed(folder)),
      num_pending_(num_places, 0) {
  const std::size_t all_bytes = num_places * place_bytes;
  if (const int error = ::posix_fallocate(descriptor_, 0, checked_cast<off_t>(all_bytes)); error != 0) {
    ::close(descriptor_);
    throw_config_error("cannot offload activations to `" + folder + "`",
                       "a rank needs " + device::format_bytes(all_bytes) + " there: " + std::strerror(error),
                       "set train.offload_folder to a disk with more room, or activation_offload = false");
  }
  struct statfs disk {};
  if (::fstatfs(descriptor_, &disk) == 0 && disk.f_type == TMPFS_MAGIC) {
    log_warning("activations offloaded to `" + folder + "` stay in memory: that folder is a tmpfs; " +
                "set train.offload_folder to a folder on a disk");
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
  ::close(descriptor_);
}

void ActivationFile::save(std::size_t block, const std::vector<Tensor>& tensors) { queue({block, tensors, true}); }
void ActivationFile::load(std::size_t block, const std::vector<Tensor>& tensors) { queue({block, tensors, false}); }

void ActivationFile::queue(Job job) {
  ensure(model::place_bytes(job.tensors) <= place_bytes_, "a block's activations fit into their place");
  {
    const std::lock_guard lock(mutex_);
    ++num_pending_[job.block];
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void ActivationFile::wait(std::size_t block) {
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
  const auto begin = static_cast<std::int64_t>(job.block * place_bytes_);
  std::int64_t position = begin;
  for (const Tensor& tensor : job.tensors) {
    auto* bytes = tensor.as<std::byte>();
    const bool is_done = job.writes ? move_all(bytes, tensor.size_bytes(), position,
                                               [&](std::byte* from, std::size_t size, std::int64_t at) {
                                                 return ::pwrite(descriptor_, from, size, at);
                                               })
                                    : move_all(bytes, tensor.size_bytes(), position,
                                               [&](std::byte* to, std::size_t size, std::int64_t at) {
                                                 return ::pread(descriptor_, to, size, at);
                                               });
    if (!is_done) fail(job.writes ? "write" : "read");
    position += static_cast<std::int64_t>(tensor.size_bytes());
  }
  // Both are hints: what is written need not wait in memory, and what was read is not read again.
  if (job.writes) {
    static_cast<void>(::sync_file_range(descriptor_, begin, position - begin, SYNC_FILE_RANGE_WRITE));
  } else {
    static_cast<void>(::posix_fadvise(descriptor_, begin, position - begin, POSIX_FADV_DONTNEED));
  }
}

void ActivationFile::fail(const char* verb) const {
  throw Error(ExitStatus::failure, std::string("cannot ") + verb + " offloaded activations in `" + folder_ + "`",
              std::strerror(errno), "check the disk, or set activation_offload = false");
}

}  // namespace sft::train
