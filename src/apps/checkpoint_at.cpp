// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_at.hpp"

#include <cstdio>
#include <filesystem>
#include <utility>

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
  std::string chosen = path;
  std::string date;
  for (const std::string& folder : checkpoint::list(path)) {
    std::string written = checkpoint::read_header(folder).date;
    if (written < date) continue;
    date = std::move(written);
    chosen = folder;
  }
  if (chosen != path && log_rank() == 0)
    std::fprintf(stderr, "using %s, saved last\n", printable(chosen, /*keep_layout=*/false).c_str());
  return chosen;
}

}  // namespace sft::apps
