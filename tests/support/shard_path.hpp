// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shard files of a checkpoint, whose names nobody knows beforehand.

#include <fmt/core.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace sft::test {

/// The shard file of `folder` that is named after `rank`.
inline std::string shard_path(const std::string& folder, int rank) {
  const std::string end = fmt::format("-{:05}.h5", rank);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(end)) return entry.path().string();
  }
  throw std::runtime_error(fmt::format("no shard file of rank {} in {}", rank, folder));
}

}  // namespace sft::test
