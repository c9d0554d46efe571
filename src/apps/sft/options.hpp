// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"
#include "sft/config/options.hpp"

namespace sft::apps {

/// What a command line asks for.
struct SftOptions {
  enum class Action { run, print_config, dry_run, compile_attention, check };
  Action action = Action::run;
  bool json = false;               ///< with dry_run: print JSON
  int num_ranks = 0;               ///< with plans_for_others(): ranks of the planned mesh; 0: as many as its axes need
  int ranks_per_node = 0;          ///< the same: of the planned nodes; 0: not said
  std::string machine;             ///< that the time of a step is planned for; empty: none
  std::string machine_file;        ///< with check: what to write the measured machine to; empty: it is not
  std::int64_t max_length = 0;     ///< with dry_run: of rows that are not there yet; 0: those of the data
  std::int64_t num_rows = 0;       ///< with dry_run: how many rows are not there yet; 0: those of a step
  std::uint64_t memory_bytes = 0;  ///< with dry_run: of a GPU, or on CPUs of a node; 0: not given
  /// Whether one rank asks for a run of any number of ranks.
  [[nodiscard]] bool plans_for_others() const {
    return action == Action::dry_run || action == Action::compile_attention;
  }
  std::string input_file;                 ///< empty: none given
  std::vector<config::Option> overrides;  ///< keys, as config::parse takes them; that there are such names is checked
};

/// Nothing when help or the version was asked for and printed. Throws a configuration Error, also for options that
/// exclude or need one another.
[[nodiscard]] std::optional<SftOptions> read_sft_options(const std::vector<std::string>& arguments);

/// With every key of the .ini file.
[[nodiscard]] cli::Manual sft_manual();

}  // namespace sft::apps
