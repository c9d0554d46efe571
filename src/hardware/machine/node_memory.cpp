// SPDX-License-Identifier: Apache-2.0
// Control groups limit memory through files in a tree that mirrors the tree of groups; the group of a process is a line
// of /proc/self/cgroup, "0::/job/step" (v2) or "5:memory:/job/step" (v1). The limit of every group on the way up holds.
// In a container the path may be that of the host, and the tree begins at the container's own group: folders that are
// not there are passed over.

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sft/machine/node.hpp"

namespace sft::machine {

namespace {

namespace fs = std::filesystem;

std::optional<std::size_t> ram_bytes(const fs::path& root) {
  std::ifstream meminfo(root / "proc/meminfo");
  std::string key;
  while (meminfo >> key) {
    if (std::size_t kibibytes = 0; key == "MemTotal:" && meminfo >> kibibytes) return kibibytes * 1024;
    meminfo.ignore(1024, '\n');
  }
  return std::nullopt;
}

/// The limit that `file` holds; none when it is not there or says "max".
std::optional<std::size_t> limit_in(const fs::path& file) {
  std::size_t bytes = 0;
  if (std::ifstream stream(file); stream >> bytes) return bytes;
  return std::nullopt;
}

/// The files that limit the memory of the group `group` of the tree at `mount` and of the groups above it.
std::vector<fs::path> limit_files(const fs::path& mount, const fs::path& group, const char* name) {
  std::vector<fs::path> files{mount / name};
  fs::path folder = mount;
  for (const fs::path& part : group.lexically_normal().relative_path()) {
    if (part.empty() || part == "..") continue;  // ".." leads out of a container's own tree
    folder /= part;
    files.push_back(folder / name);
  }
  return files;
}

bool has_memory(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string controller; std::getline(list, controller, ',');) {
    if (controller == "memory") return true;
  }
  return false;
}

std::vector<fs::path> limit_files(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::vector<fs::path> files;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    std::vector<fs::path> more;
    if (controllers.empty()) more = limit_files(mount, group, "memory.max");
    if (has_memory(controllers)) more = limit_files(mount / "memory", group, "memory.limit_in_bytes");
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

}  // namespace

std::optional<std::size_t> node_memory_bytes(const fs::path& root) {
  std::optional<std::size_t> least = ram_bytes(root);
  for (const fs::path& file : limit_files(root)) {
    const std::optional<std::size_t> limit = limit_in(file);
    if (limit) least = least ? std::min(*least, *limit) : *limit;
  }
  return least;
}

std::size_t unasked_huge_page_bytes(const fs::path& root) {
  const fs::path folder = root / "sys/kernel/mm/transparent_hugepage";
  std::ifstream enabled(folder / "enabled"), size(folder / "hpage_pmd_size");
  std::string choices;  // "always [madvise] never"
  std::size_t bytes = 0;
  if (!std::getline(enabled, choices) || choices.find("[always]") == std::string::npos || !(size >> bytes)) return 0;
  return bytes;
}

}  // namespace sft::machine
