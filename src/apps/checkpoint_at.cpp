// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_at.hpp"

#include <cstdio>
#include <filesystem>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/printable.hpp"
#include "sft/io/file_kind.hpp"

namespace sft::apps {

std::string checkpoint_at(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw_data_error("cannot find the checkpoint " + path, "there is no such folder", "check the path");
  }
  io::require_kind(path, io::Expected::checkpoint);
  if (std::filesystem::exists(std::filesystem::path(path) / "checkpoint.h5", ignored)) return path;
  const std::string chosen = checkpoint::saved_last(path);
  if (chosen.empty()) return path;
  if (log_rank() == 0) std::fprintf(stderr, "using %s, saved last\n", printable(chosen, /*keep_layout=*/false).c_str());
  return chosen;
}

}  // namespace sft::apps
