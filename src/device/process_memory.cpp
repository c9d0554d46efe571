// SPDX-License-Identifier: Apache-2.0
#include "sft/device/process_memory.hpp"

#include <unistd.h>

#include <fstream>
#include <string>

namespace sft::device {

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");  // total and resident, in pages
  std::size_t total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "VmHWM:") {
      std::size_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
  }
  return 0;
}

}  // namespace sft::device
