// SPDX-License-Identifier: Apache-2.0
// Linux says it in files: /sys/class/infiniband/ADAPTER/ports/PORT/{state,rate} ("4: ACTIVE", "400 Gb/sec (4X NDR)")
// and /sys/class/net/INTERFACE/{operstate,speed} ("up", Mb/s).

#include "sft/machine/node.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>

namespace sft::machine {

namespace {

namespace fs = std::filesystem;

/// The first line; empty where the file is not there or cannot be read.
std::string line_of(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

/// What a folder holds, by name; nothing where there is none.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, missing)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

/// "400 Gb/s (4X NDR)" of "400 Gb/sec (4X NDR)".
std::string as_rate(std::string rate) {
  constexpr std::string_view unit = "b/sec";
  if (const std::size_t at = rate.find(unit); at != std::string::npos) rate.replace(at, unit.size(), "b/s");
  return rate;
}

/// Of Mb/s.
std::string ethernet_rate(int megabits) {
  return megabits % 1000 == 0 ? fmt::format("{} Gb/s", megabits / 1000) : fmt::format("{} Mb/s", megabits);
}

}  // namespace

std::vector<std::string> network_adapters(const fs::path& root) {
  std::vector<std::string> adapters;
  for (const fs::path& adapter : entries_of(root / "sys/class/infiniband")) {
    const std::vector<fs::path> ports = entries_of(adapter / "ports");
    for (const fs::path& port : ports) {
      const std::string rate = line_of(port / "rate");
      if (rate.empty() || line_of(port / "state") != "4: ACTIVE") continue;
      const std::string name = adapter.filename().string();
      adapters.push_back(
          fmt::format("{}{} {}", name, ports.size() > 1 ? ":" + port.filename().string() : "", as_rate(rate)));
    }
  }
  for (const fs::path& interface : entries_of(root / "sys/class/net")) {
    int megabits = 0;
    if (line_of(interface / "operstate") != "up" || !(std::ifstream(interface / "speed") >> megabits)) continue;
    if (megabits > 0) adapters.push_back(fmt::format("{} {}", interface.filename().string(), ethernet_rate(megabits)));
  }
  return adapters;
}

}  // namespace sft::machine
