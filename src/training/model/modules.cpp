// SPDX-License-Identifier: Apache-2.0
#include "sft/model/modules.hpp"

#include <algorithm>

#include "sft/model/architecture.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

std::vector<std::vector<LinearMember>> linear_modules(const config::Model& model) {
  std::vector<std::vector<LinearMember>> groups;
  const Architecture architecture = make_architecture(model);
  for (const BlockParameters& block : architecture.parameters.blocks) {
    for (const BlockSublayer& sublayer : block.sublayers) {
      for (const Linear& layer : sublayer.layer->linear_layers()) groups.push_back(layer.members);
    }
  }
  return groups;
}

std::vector<std::string> names_of(const std::vector<std::vector<LinearMember>>& modules) {
  std::vector<std::string> names;
  for (const std::vector<LinearMember>& group : modules) {
    for (const LinearMember& member : group) {
      const std::string name = member.name();
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

}  // namespace sft::model
