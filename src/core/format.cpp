// SPDX-License-Identifier: Apache-2.0
#include "sft/core/format.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace sft {

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
  return format_text("%.*f %s", decimals, value, units[unit]);
}

std::string format_count(double count) {
  constexpr std::array<const char*, 5> suffixes{"", " k", " M", " G", " T"};
  std::size_t i = 0;
  for (; i + 1 < suffixes.size() && count >= 999.5; ++i) count /= 1000;
  return format_text(i == 0 ? "%.0f%s" : "%.3g%s", count, suffixes[i]);
}

std::string format_duration(double time_s) {
  const long seconds = std::lround(std::max(0.0, time_s));
  if (seconds >= 3600) return format_text("%ld:%02ld:%02ld", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return format_text("%ld:%02ld", seconds / 60, seconds % 60);
}

std::string format_seconds(double time_s) { return format_text("%.2f s", time_s); }

}  // namespace sft
