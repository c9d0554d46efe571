// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-inspect.

#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"

namespace sft::apps {

struct InspectOptions {
  std::string checkpoint;  ///< as given: a checkpoint, or the output folder of a run; with `diff` also a model folder
  std::string other;       ///< the same; empty: nothing to compare with
  std::string run;         ///< the output folder whose run's status is asked for; empty: none is, and all else counts
  bool diff = false;       ///< of `checkpoint` and `other`
  bool verify = false;
  bool index = false;
  bool optimizer = false;
  bool json = false;
};

/// Nothing when help or the version was asked for and printed. Throws a configuration Error.
[[nodiscard]] std::optional<InspectOptions> read_inspect_options(const std::vector<std::string>& arguments);

[[nodiscard]] cli::Manual inspect_manual();

}  // namespace sft::apps
