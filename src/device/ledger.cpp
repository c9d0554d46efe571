#include "sft/device/ledger.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>

namespace sft::device {

const char* name_of(Label label) {
  static constexpr std::array<const char*, num_labels> names = {"parameters",    "gradients",   "optimizer",
                                                                "unit buffers",  "activations", "workspace",
                                                                "communication", "batches",     "process"};
  return names[static_cast<std::size_t>(label)];
}

std::size_t Ledger::total_bytes() const { return std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0}); }

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

std::string format_bytes(std::size_t bytes) {
  static constexpr std::array<const char*, 4> units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < units.size()) {
    value /= 1024.0;
    ++unit;
  }
  const int decimals = unit >= 2 ? 2 : 1;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, units[unit]);
  return text.data();
}

}  // namespace sft::device
