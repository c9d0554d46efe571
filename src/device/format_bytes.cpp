// SPDX-License-Identifier: Apache-2.0
#include "sft/device/format_bytes.hpp"

#include <array>
#include <cstdio>

namespace sft::device {

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
