// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-launch.

#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"
#include "sft/config/parse.hpp"

namespace sft::apps {

struct LaunchOptions {
  std::string accelerate_config;               ///< a profile or a file; empty: none
  std::string config;                          ///< a file of TRL, Axolotl, Accelerate or DeepSpeed; empty: none
  std::string machine;                         ///< that sizes are chosen for; empty: this one
  bool prints = false;                         ///< show what would be done, and do nothing
  std::vector<config::PlacedOption> settings;  ///< all other options, in order
};

/// Reads `sft-launch sft [options]`, with lists as TRL writes them, `--data_files A B`, and with trl/scripts/sft.py or
/// `-m trl.scripts.sft` in place of `sft`, which may then stand behind options of `accelerate launch`. Prints help or
/// version where they are asked for, and returns nothing then. Throws a configuration Error.
[[nodiscard]] std::optional<LaunchOptions> read_launch_options(const std::vector<std::string>& arguments);

[[nodiscard]] cli::Manual launch_manual();

}  // namespace sft::apps
