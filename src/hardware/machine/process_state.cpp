// SPDX-License-Identifier: Apache-2.0
#include "sft/machine/node.hpp"

#include <fstream>
#include <string>
#include <system_error>

namespace sft::machine {

namespace fs = std::filesystem;

namespace {

/// The letter of a `stat` file of proc(5), behind the name in parentheses, which may hold any character; '\0' where
/// there is none.
char letter_of(const fs::path& stat) {
  std::ifstream file(stat);
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(") ");
  return end == std::string::npos || end + 2 >= line.size() ? '\0' : line[end + 2];
}

}  // namespace

ProcessState process_state(pid_t id, const fs::path& root) {
  std::error_code error;
  if (!fs::exists(root / "proc/self", error)) return ProcessState::runs;
  const fs::path folder = root / "proc" / std::to_string(id);
  switch (letter_of(folder / "stat")) {
    case '\0':
    case 'Z':
    case 'X':
    case 'x':
      return ProcessState::ended;
    case 'T':
    case 't':
      return ProcessState::stopped;
    default:
      break;
  }
  for (fs::directory_iterator task(folder / "task", error), end; !error && task != end; task.increment(error)) {
    if (letter_of(task->path() / "stat") == 'D') return ProcessState::blocked;
  }
  return ProcessState::runs;
}

}  // namespace sft::machine
