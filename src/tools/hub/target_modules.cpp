// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/adapter_config.hpp"

#include <algorithm>
#include <utility>

#include "sft/config/linear_modules.hpp"

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

TargetModules TargetModules::all_linear() { return named(config::linear_layer_names()); }

bool TargetModules::contains(const std::string& module) const {
  if (pattern_) return pattern_->matches(module);
  return std::ranges::any_of(names_,
                             [&](const std::string& name) { return module == name || module.ends_with("." + name); });
}

}  // namespace sft::hub
