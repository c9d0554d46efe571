// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/adapter_config.hpp"

#include <algorithm>
#include <utility>

namespace sft::hub {

TargetModules TargetModules::named(std::vector<std::string> names) {
  TargetModules targets;
  targets.names_ = std::move(names);
  return targets;
}

TargetModules TargetModules::matching(const std::string& pattern) {
  TargetModules targets;
  targets.pattern_.emplace(pattern);
  return targets;
}

TargetModules TargetModules::all_linear() {
  TargetModules targets;
  targets.are_all_ = true;
  return targets;
}

bool TargetModules::contains(const std::string& module) const {
  if (are_all_) return ("." + module).find(".layers.") != std::string::npos;
  if (pattern_) return pattern_->matches(module);
  return std::ranges::any_of(names_,
                             [&](const std::string& name) { return module == name || module.ends_with("." + name); });
}

}  // namespace sft::hub
