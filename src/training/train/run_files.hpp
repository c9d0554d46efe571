// SPDX-License-Identifier: Apache-2.0
#pragma once
// What restoring a run and training it have in common: work of rank 0 alone, and where files are.

#include <filesystem>
#include <functional>
#include <string>

#include "sft/comm/group.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/config.hpp"

namespace sft::train {

/// Runs `work` on rank 0, within an agreement: its error names no rank.
inline void on_rank_0(const comm::Group& world, const std::function<void()>& work) {
  if (world.rank() != 0) return;
  try {
    work();
  } catch (const Error& error) {
    throw comm::SharedError(error.status(), error.what());
  }
}

/// Runs `work` on rank 0 for all; its error becomes every rank's and names no rank.
inline void let_rank_0(const comm::Group& world, const std::function<void()>& work) {
  world.agree([&] { on_rank_0(world, work); });
}

/// The folder that a checkpoint lies in, however its path is written.
[[nodiscard]] inline std::filesystem::path folder_beside(const std::string& checkpoint) {
  const std::filesystem::path beside =
      (std::filesystem::path(checkpoint) / "").lexically_normal().parent_path().parent_path();
  return beside.empty() ? "." : beside;
}

/// In front of the run's id in the first line of resolved.ini.
inline constexpr const char* run_id_comment = "# run ";

[[nodiscard]] inline std::string resolved_ini_of(const config::Config& config) {
  return config.train.output_dir + "/resolved.ini";
}

}  // namespace sft::train
