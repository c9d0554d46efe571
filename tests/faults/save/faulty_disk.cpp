// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: a disk that is slow, refuses, or whose machine goes, in calls that concern files of certain names.
//
//   DISK_CALL         which calls, with commas between them: open, write, sync, rename, remove, mkdir; without it none
//   DISK_PATH         a part of the paths that are meant; /shard- without it
//   DISK_RANK         of which rank; without it, of all
// Each call that is meant has a number in its process, from 1 on.
//   DISK_SLEEP_MS     what each of them takes
//   DISK_TELLS        a file that is made when the first of them begins
//   DISK_LISTS        a file that gets a line for each of them: rank, call, path
//   DISK_FAILS_FROM   the call that fails, and all after it
//   DISK_FAILS_AT     the call that fails, it alone
//   DISK_ERROR        their errno, a number; ENOSPC without it
//   DISK_KILLS_AT     the call before which a process is killed ...
//   DISK_KILLS_AFTER_US   ... or so long after it began
//   DISK_KILLS        which process: self (without it), all ranks of this machine, or other, one of the others

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

long number(const char* name) { return std::atol(setting(name).c_str()); }

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string own_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const std::string rank = setting(variable); !rank.empty()) return rank;
  }
  return "0";
}

std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), path.data(), path.size() - 1) < 0 ? "" : path.data();
}

/// The processes that this one's parent has started: the ranks of this machine.
std::vector<pid_t> local_ranks() {
  const std::string parent = std::to_string(::getppid());
  std::ifstream children("/proc/" + parent + "/task/" + parent + "/children");
  std::vector<pid_t> ranks;
  for (pid_t rank = 0; children >> rank;) ranks.push_back(rank);
  return ranks;
}

void kill_now() {
  const std::string whom = setting("DISK_KILLS");
  if (whom == "all" || whom == "other") {
    for (const pid_t rank : local_ranks()) {
      if (rank == ::getpid()) continue;
      ::kill(rank, SIGKILL);
      if (whom == "other") return;
    }
  }
  ::kill(::getpid(), SIGKILL);
}

void kill_in_time() {
  const long after_us = number("DISK_KILLS_AFTER_US");
  if (after_us == 0) return kill_now();
  std::thread([after_us] {
    std::this_thread::sleep_for(std::chrono::microseconds(after_us));
    kill_now();
  }).detach();
}

/// Whether it is the disk of this process, and for these calls.
bool is_meant(const std::string& call) {
  static const std::string calls = "," + setting("DISK_CALL") + ",";
  static const bool is_rank = setting("DISK_RANK").empty() || setting("DISK_RANK") == own_rank();
  return is_rank && calls.find("," + call + ",") != std::string::npos;
}

bool is_path_meant(const std::string& path) {
  static const std::string part = setting("DISK_PATH").empty() ? "/shard-" : setting("DISK_PATH");
  return path.find(part) != std::string::npos;
}

void list(const std::string& call, const std::string& path) {
  const std::string file = setting("DISK_LISTS"), line = own_rank() + " " + call + " " + path + "\n";
  if (file.empty()) return;
  std::FILE* stream = std::fopen(file.c_str(), "a");
  std::fputs(line.c_str(), stream);
  std::fclose(stream);
}

/// Whether a call that concerns `path` fails, after the time that it takes.
bool meets(const char* call, const std::string& path) {
  static std::atomic<long> count = 0;
  if (!is_path_meant(path)) return false;
  const long own = ++count;
  if (const std::string told = setting("DISK_TELLS"); !told.empty() && own == 1) {
    std::fclose(std::fopen(told.c_str(), "w"));
  }
  list(call, path);
  std::this_thread::sleep_for(std::chrono::milliseconds(number("DISK_SLEEP_MS")));
  if (own == number("DISK_KILLS_AT")) kill_in_time();
  const long from = number("DISK_FAILS_FROM");
  const bool fails = (from > 0 && own >= from) || own == number("DISK_FAILS_AT");
  if (fails) errno = setting("DISK_ERROR").empty() ? ENOSPC : static_cast<int>(number("DISK_ERROR"));
  return fails;
}

bool meets(const char* call, int descriptor) { return is_meant(call) && meets(call, path_of(descriptor)); }
bool meets(const char* call, const char* path) { return is_meant(call) && meets(call, std::string(path)); }
/// The one path or the other.
bool meets(const char* call, const char* from, const char* to) {
  if (!is_meant(call)) return false;
  return meets(call, std::string(is_path_meant(from) ? from : to));
}

}  // namespace

// Those of libc are declared with attributes that differ from one to the other: names and types are what counts here.
extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return meets("open", path) ? -1 : next<int(const char*, int, ...)>("open")(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return meets("open", path) ? -1 : next<int(const char*, int, ...)>("open64")(path, flags, mode);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  return meets("write", descriptor) ? -1 : next<decltype(write)>("write")(descriptor, bytes, count);
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  return meets("write", descriptor) ? -1 : next<decltype(writev)>("writev")(descriptor, parts, count);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t at) {
  return meets("write", descriptor) ? -1 : next<decltype(pwrite)>("pwrite")(descriptor, bytes, count, at);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t at) {
  return meets("write", descriptor) ? -1 : next<decltype(pwrite64)>("pwrite64")(descriptor, bytes, count, at);
}

int ftruncate(int descriptor, off_t size) noexcept {
  return meets("write", descriptor) ? -1 : next<int(int, off_t)>("ftruncate")(descriptor, size);
}

int fsync(int descriptor) { return meets("sync", descriptor) ? -1 : next<decltype(fsync)>("fsync")(descriptor); }

int rename(const char* from, const char* to) noexcept {
  return meets("rename", from, to) ? -1 : next<int(const char*, const char*)>("rename")(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (meets("rename", from, to)) return -1;
  return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to, flags);
}

int remove(const char* path) noexcept { return meets("remove", path) ? -1 : next<int(const char*)>("remove")(path); }

int unlink(const char* path) noexcept { return meets("remove", path) ? -1 : next<int(const char*)>("unlink")(path); }

int unlinkat(int folder, const char* path, int flags) noexcept {
  return meets("remove", path) ? -1 : next<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return meets("mkdir", path) ? -1 : next<int(const char*, mode_t)>("mkdir")(path, mode);
}

}  // extern "C"
