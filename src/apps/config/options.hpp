// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-config.

#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"

namespace sft::apps {

struct ConfigureOptions {
  std::string output = "run.ini";  ///< the job script is beside it: run.sbatch or run.sh
  std::string answers;             ///< a file of them; empty: they come from the terminal, or standard input
  std::string model;               ///< that is proposed; empty: none
  bool replaces = false;           ///< files that are there
};

/// Prints help or version where they are asked for, and returns nothing then. Throws a configuration Error.
[[nodiscard]] std::optional<ConfigureOptions> read_configure_options(const std::vector<std::string>& arguments);

[[nodiscard]] cli::Manual configure_manual();

}  // namespace sft::apps
