// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of a launch that are auto.

#include <string>

#include "sft/config/config.hpp"
#include "sft/launch/request.hpp"
#include "sft/launch/site.hpp"

namespace sft::apps {

/// Puts what the planner chooses in the place of sizes that are auto, in `whole`, the configuration with its model, and
/// in `config`, that of the request. `machine_name`: the machine to plan for; empty: the one at hand. Returns why these
/// sizes; empty: none are auto. A configuration Error where nothing fits, or nothing is known of the machine.
[[nodiscard]] std::string choose_launch_sizes(const launch::Request& request, const launch::Site& site,
                                              const std::string& machine_name, config::Config& whole,
                                              config::Config& config);

}  // namespace sft::apps
