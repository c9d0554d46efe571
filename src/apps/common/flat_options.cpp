// SPDX-License-Identifier: Apache-2.0
#include "flat_options.hpp"

#include <fmt/format.h>

#include "sft/core/error.hpp"
#include "sft/launch/foreign_file.hpp"

namespace sft::apps {

std::vector<config::Option> flat_options(const std::vector<config::Option>& options) {
  std::vector<config::PlacedOption> placed;
  for (const config::Option& option : options) placed.push_back({option, "on the command line"});
  const launch::ForeignFile flat = launch::lay_flat(placed);
  if (!flat.refused.empty()) throw Error(ExitStatus::configuration, fmt::format("{}", fmt::join(flat.refused, "\n  ")));
  std::vector<config::Option> all;
  for (const config::PlacedOption& setting : flat.settings) all.push_back(setting.option);
  return all;
}

}  // namespace sft::apps
