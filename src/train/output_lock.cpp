// SPDX-License-Identifier: Apache-2.0
#include "sft/train/output_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <thread>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"

namespace sft::train {

namespace {

using Clock = std::chrono::steady_clock;

/// The ranks of a run whose mpirun was killed notice it within about a second.
constexpr std::chrono::seconds patience{5};
constexpr std::chrono::milliseconds interval{100};

/// 0, or the errno of a lock that was not granted.
int try_lock(int descriptor) {
  struct flock whole_file {};
  whole_file.l_type = F_WRLCK;
  whole_file.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_SETLK, &whole_file) == 0) return 0;
  if (errno != EINVAL) return errno;
  return ::fcntl(descriptor, F_SETLK, &whole_file) == 0 ? 0 : errno;  // a system without locks of open files
}

bool is_held_by_another(int error) { return error == EAGAIN || error == EACCES; }

/// "process 4711 on host node07 since 2026-01-31 12:00:00 UTC"
std::string describe_this_process() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return "process " + std::to_string(::getpid()) + " on host " + host.data() + " since " + time.data();
}

/// The first line of the file.
std::string read_line(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t length = ::pread(descriptor, text.data(), text.size() - 1, 0);
  const std::string line(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return line.substr(0, line.find('\n'));
}

}  // namespace

OutputLock::OutputLock(const std::string& output_dir) : path_(output_dir + "/run.lock") {
  const std::string& path = path_;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw_data_error("cannot open " + path, std::strerror(errno), "choose a train.output_dir that you may write");
  }
  int error = try_lock(descriptor_);
  for (const auto end = Clock::now() + patience; is_held_by_another(error) && Clock::now() < end;) {
    std::this_thread::sleep_for(interval);
    error = try_lock(descriptor_);
  }
  if (is_held_by_another(error)) {
    const std::string holder = read_line(descriptor_);
    ::close(descriptor_);
    throw_data_error("another run is writing to " + output_dir,
                     (holder.empty() ? "a process that did not say its name" : holder) + " holds " + path,
                     "wait for it, stop it, or set another train.output_dir");
  }
  if (error != 0) {
    log_warning("cannot lock " + path + " (" + std::strerror(error) +
                "): nothing keeps a second run from writing to this folder at the same time");
    return;
  }
  // For people: the lock holds without these words, so a disk that has no room for them is no error.
  const std::string line = describe_this_process() + "\n";
  if (::ftruncate(descriptor_, 0) == 0) static_cast<void>(::pwrite(descriptor_, line.data(), line.size(), 0) < 0);
}

OutputLock::~OutputLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool OutputLock::is_in_place() const { return io::identity_of(path_) == io::identity_of(descriptor_); }

}  // namespace sft::train
