// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of a launch that are auto.

#include <string>

#include "sft/config/config.hpp"
#include "sft/launch/request.hpp"
#include "sft/launch/site.hpp"

namespace sft::apps {

/// Puts what the planner chooses in the place of sizes that are auto, in `whole`, the configuration with its model, and
/// in `config`, that of the request, and with --machine its ranks in that of the number of processes. `machine_name`:
/// the machine to plan for; empty: the one at hand. Returns why these sizes; empty: none are auto. A configuration
/// Error where nothing fits, nothing is known of the machine, or this build has no planner (no_sizes.cpp).
[[nodiscard]] std::string choose_launch_sizes(launch::Request& request, const launch::Site& site,
                                              const std::string& machine_name, config::Config& whole,
                                              config::Config& config);

}  // namespace sft::apps
