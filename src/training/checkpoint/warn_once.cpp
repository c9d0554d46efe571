// SPDX-License-Identifier: Apache-2.0
#include "warn_once.hpp"

#include <mutex>
#include <set>

#include "sft/core/log.hpp"

namespace sft::checkpoint {

void warn_once(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> lines;
  const std::lock_guard<std::mutex> guard(mutex);
  if (lines.insert(line).second) log_warning(line);
}

}  // namespace sft::checkpoint
