// SPDX-License-Identifier: Apache-2.0
#include "sft/core/format.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace sft {

std::string format_bytes(std::size_t bytes) {
  static constexpr std::array<const char*, 4> units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < units.size()) {
    value /= 1024.0;
    ++unit;
  }
  const int decimals = unit >= 2 ? 2 : 1;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

std::string format_count(double count) {
  constexpr std::array<const char*, 5> suffixes{"", " k", " M", " G", " T"};
  std::size_t i = 0;
  for (; i + 1 < suffixes.size() && count >= 999.5; ++i) count /= 1000;
  return i == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.3g}{}", count, suffixes[i]);
}

std::string format_duration(double time_s) {
  const long seconds = std::lround(std::max(0.0, time_s));
  if (seconds >= 3600) return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

std::string format_seconds(double time_s) { return fmt::format("{:.2f} s", time_s); }

std::string plural(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace sft
