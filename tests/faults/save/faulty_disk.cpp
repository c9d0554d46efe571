// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: a disk that is slow, or refuses, where shard files of checkpoints are written.
//
//   DISK_CALL         pwrite or fsync: which calls
//   DISK_RANK         of which rank; without it, of all
//   DISK_SLEEP_MS     what each of them takes
//   DISK_FAILS_FROM   the call that fails with ENOSPC, counted from 1, and all after it; 0 or nothing: none
//   DISK_TELLS        a file that is made when the first of them begins

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool is_shard_file(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (::readlink(link.c_str(), path.data(), path.size() - 1) < 0) return false;
  const std::string text = path.data();
  return text.find("/checkpoint-") != std::string::npos && text.find("/shard-") != std::string::npos;
}

/// Whether the call fails, after the time that it takes.
bool meets(const char* call, int descriptor) {
  static std::atomic<long> count = 0;
  if (setting("DISK_CALL") != call || !is_shard_file(descriptor)) return false;
  const std::string rank = setting("DISK_RANK"), own_rank = setting("OMPI_COMM_WORLD_RANK");
  if (!rank.empty() && rank != (own_rank.empty() ? "0" : own_rank)) return false;
  if (const std::string told = setting("DISK_TELLS"); !told.empty()) {
    ::close(::open(told.c_str(), O_WRONLY | O_CREAT, 0644));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(std::atol(setting("DISK_SLEEP_MS").c_str())));
  const long from = std::atol(setting("DISK_FAILS_FROM").c_str());
  const bool fails = ++count >= from && from > 0;
  if (fails) errno = ENOSPC;
  return fails;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t at) {
  if (meets("pwrite", descriptor)) return -1;
  return next<decltype(pwrite)>("pwrite")(descriptor, bytes, count, at);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t at) {
  if (meets("pwrite", descriptor)) return -1;
  return next<decltype(pwrite64)>("pwrite64")(descriptor, bytes, count, at);
}

int fsync(int descriptor) {
  if (meets("fsync", descriptor)) return -1;
  return next<decltype(fsync)>("fsync")(descriptor);
}

}  // extern "C"
