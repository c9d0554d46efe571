// SPDX-License-Identifier: Apache-2.0
#include "input_file.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "sft/core/error.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/files.hpp"

namespace sft::apps {

std::string read_input_file(const std::string& path) {
  if (path.empty()) return "";
  try {
    io::require_kind(path, io::Expected::configuration);
    return io::read_file_or_pipe(path);
  } catch (const Error& error) {
    throw Error(ExitStatus::configuration, error.what());
  }
}

int num_ranks_of(const config::Parallel& parallel) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  std::int64_t product = 1;
  const AxisArray<int> sizes = parallel.sizes();
  for (const int size : sizes.values()) {
    product = std::min(product * std::max(1, size), most);
  }
  return static_cast<int>(product);
}

}  // namespace sft::apps
