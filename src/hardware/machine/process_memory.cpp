// SPDX-License-Identifier: Apache-2.0
#include "sft/machine/node.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>

namespace sft::machine {

namespace {

/// The bytes after `key` in /proc/self/status; 0 where it is not there.
std::size_t bytes_in_status(std::string_view key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == key) {
      std::size_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
  }
  return 0;
}

/// Of shared memory that belongs to this process.
struct SharedMemory {
  std::mutex mutex;
  bool is_used = false;
  std::size_t own_bytes = 0;
  std::size_t peak_before_bytes = 0;  ///< the highest resident set when there was none of others
};

SharedMemory& shared_memory() {
  static SharedMemory memory;
  return memory;
}

std::size_t resident_shared_bytes() { return bytes_in_status("RssShmem:"); }

/// Its mutex is locked.
std::size_t peak_resident_bytes(const SharedMemory& shared) {
  const std::size_t peak = bytes_in_status("VmHWM:");
  if (!shared.is_used) return peak;
  const std::size_t resident = resident_shared_bytes();
  const std::size_t of_others = resident - std::min(resident, shared.own_bytes);
  return std::max(shared.peak_before_bytes, peak - std::min(peak, of_others));
}

}  // namespace

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");  // total and resident, in pages
  std::size_t total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

std::size_t peak_resident_bytes() {
  SharedMemory& shared = shared_memory();
  const std::lock_guard lock(shared.mutex);
  return peak_resident_bytes(shared);
}

SharedBytes::SharedBytes(std::size_t bytes) : bytes_(bytes) {
  SharedMemory& shared = shared_memory();
  const std::lock_guard lock(shared.mutex);
  if (!shared.is_used) {
    shared.is_used = true;
    shared.own_bytes = resident_shared_bytes();
    shared.peak_before_bytes = bytes_in_status("VmHWM:");
  }
  shared.own_bytes += bytes;
}

SharedBytes::~SharedBytes() {
  SharedMemory& shared = shared_memory();
  const std::lock_guard lock(shared.mutex);
  // What is resident of others goes with the memory: the peak so far is kept, and the system begins a new one.
  shared.peak_before_bytes = peak_resident_bytes(shared);
  std::ofstream("/proc/self/clear_refs") << "5";
  shared.own_bytes -= bytes_;
}

}  // namespace sft::machine
