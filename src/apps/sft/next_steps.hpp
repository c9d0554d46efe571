// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to do with what a run left.

#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

/// Commands to try next, a line each, as they can be typed where the run was started: of a run that is done, for its
/// answers, for a model folder where it has written none, and for its curves; of a stopped one, how it goes on.
/// `checkpoint`: what it saved last. Programs that are not there are left out.
[[nodiscard]] std::vector<std::string> next_steps(const config::Config& config, ExitStatus status,
                                                  const std::string& checkpoint);

/// Commands that send the metrics of a run to the services that train.report_to names, to be typed in another terminal.
[[nodiscard]] std::vector<std::string> tracker_commands(const config::Train& config);

}  // namespace sft::apps
