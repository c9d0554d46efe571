// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rows of a launch: the calls of sft-prepare that make them, and the files that they read.

#include <string>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/launch/prepared.hpp"
#include "sft/launch/request.hpp"

namespace sft::apps {

struct LaunchData {
  std::vector<launch::Prepared> preparations;
  std::vector<std::string> files_read;  ///< lines on the files of records, and on those that are left out
};

/// Adds the refusals of options that sft-prepare would give to the other refusals.
void check_preparation(launch::Request& request);

/// Adds to `plan` what makes the rows. Returns what the launcher itself adds below all that was given: the files of
/// rows, and TRL's defaults where they change numbers. `has_share_of_steps`: eval_steps is one. Throws a configuration
/// Error where no data is given, and as launch::find_inputs().
[[nodiscard]] std::vector<config::PlacedOption> plan_data(const launch::Request& request, bool has_share_of_steps,
                                                          LaunchData& plan);

}  // namespace sft::apps
