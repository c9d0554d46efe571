// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-prove.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"
#include "sft/config/options.hpp"

namespace sft::apps {

struct ProveOptions {
  std::string first, second;  ///< .ini files; no second: the first one's numbers against those of one rank
  std::int64_t steps = 5;
  int num_ranks = 0;                      ///< of a mesh with dp_shard_size = auto; 0: the least that it can have
  std::string launcher;                   ///< words that start the ranks, {n} their number; empty: sft-run -n
  std::string scratch;                    ///< the folder in which runs leave what is compared; empty: TMPDIR or /tmp
  bool keep = false;                      ///< that stays
  bool json = false;                      ///< print JSON
  std::vector<config::Option> overrides;  ///< keys for both
};

/// Nothing when help or the version was asked for and printed. Throws a configuration Error.
[[nodiscard]] std::optional<ProveOptions> read_prove_options(const std::vector<std::string>& arguments);

[[nodiscard]] cli::Manual prove_manual();

}  // namespace sft::apps
