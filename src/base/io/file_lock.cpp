// SPDX-License-Identifier: Apache-2.0
#include "sft/io/file_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::io {

namespace {

constexpr std::chrono::milliseconds interval{100};

/// 0, or the errno of a lock that was not granted.
int ask_for_lock(int descriptor) {
  struct flock whole_file {};
  whole_file.l_type = F_WRLCK;
  whole_file.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_SETLK, &whole_file) == 0) return 0;
  if (errno != EINVAL) return errno;
  return ::fcntl(descriptor, F_SETLK, &whole_file) == 0 ? 0 : errno;  // a system without locks of open files
}

/// Whether another open file of the same name holds the lock.
bool is_locked(int descriptor) {
  struct flock whole_file {};
  whole_file.l_type = F_WRLCK;
  whole_file.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_GETLK, &whole_file) != 0) {
    if (errno != EINVAL || ::fcntl(descriptor, F_GETLK, &whole_file) != 0) return false;
  }
  return whole_file.l_type != F_UNLCK;
}

std::string text_of(int descriptor) {
  std::array<char, 4096> text{};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  return {text.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

std::string describe_this_process() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return fmt::format("process {} on host {} since {}", ::getpid(), host.data(), time.data());
}

}  // namespace

FileLock::FileLock(std::string path, std::chrono::milliseconds patience) : path_(std::move(path)) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience;
  error_ = try_once();
  while (is_held_by_another() && Clock::now() < end) {
    std::this_thread::sleep_for(interval);
    error_ = try_once();
  }
  if (!is_held()) return;
  // For people: the lock holds without these words, so a disk that has no room for them is no error.
  const std::string line = describe_this_process() + "\n";
  if (::ftruncate(descriptor_, 0) == 0) static_cast<void>(::pwrite(descriptor_, line.data(), line.size(), 0) < 0);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool FileLock::is_in_place() const {
  const FileIdentity named = identity_of(path_);
  return named != FileIdentity() && named == identity_of(descriptor_);
}

int FileLock::try_once() {
  while (true) {
    if (descriptor_ < 0) descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor_ < 0) {
      throw_data_error("cannot open " + path_, std::strerror(errno), "choose a folder that you may write");
    }
    const int error = ask_for_lock(descriptor_);
    if (error != 0 || is_in_place()) return error;
    ::close(std::exchange(descriptor_, -1));
  }
}

bool FileLock::is_held_by_another() const { return error_ == EAGAIN || error_ == EACCES; }

std::string FileLock::holder() const {
  const std::string text = text_of(descriptor_), first_line = text.substr(0, text.find('\n'));
  return first_line.empty() ? "a process that did not say its name" : first_line;
}

std::string FileLock::reason() const { return std::strerror(error_); }

void FileLock::add_line(const std::string& line) {
  if (!is_held()) return;
  const std::string text = text_of(descriptor_), added = fmt::format("{}\n", line.substr(0, line.find('\n')));
  static_cast<void>(::pwrite(descriptor_, added.data(), added.size(), std::ssize(text)) < 0);  // for people, as above
}

LockState state_of_lock(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return {};
  const std::string text = text_of(descriptor);
  const std::size_t end = std::min(text.find('\n'), text.size());
  LockState state{.exists = true,
                  .is_held = is_locked(descriptor),
                  .holder = text.substr(0, end),
                  .lines = text.substr(std::min(end + 1, text.size()))};
  ::close(descriptor);
  return state;
}

void FileLock::remove() { ::unlink(path_.c_str()); }

}  // namespace sft::io
