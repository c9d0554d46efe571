// SPDX-License-Identifier: Apache-2.0
// sizes.hpp of a build without the planner: sizes are given.
#include <fmt/ranges.h>

#include "sft/core/error.hpp"
#include "sizes.hpp"

namespace sft::apps {

std::string choose_launch_sizes(launch::Request& request, const launch::Site& /*site*/,
                                const std::string& /*machine_name*/, config::Config& /*whole*/,
                                config::Config& /*config*/) {
  const std::set<std::string> free = launch::free_sizes(request);
  if (free.empty()) return {};
  throw_config_error(fmt::format("sizes are auto: {}", fmt::join(free, ", ")),
                     "the planner chooses them, and this program was built without it (-DSFT_PLANNER=OFF)",
                     "give a value for each, or build again with -DSFT_PLANNER=ON");
}

}  // namespace sft::apps
