// SPDX-License-Identifier: Apache-2.0
#include "sft/config/linear_modules.hpp"

#include <fmt/core.h>

namespace sft::config {

std::vector<std::vector<std::string>> linear_module_groups(const Model& model) {
  std::vector<std::vector<std::string>> groups;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(model.num_hidden_layers); ++layer) {
    const std::string block = fmt::format("model.layers.{}.", layer);
    const std::string attention = block + "self_attn.";
    groups.push_back({attention + "q_proj", attention + "k_proj", attention + "v_proj"});
    groups.push_back({attention + "o_proj"});
    const bool has_experts = model.has_experts(layer);
    if (has_experts && model.n_shared_experts == 0) continue;
    const std::string mlp = block + (has_experts ? "mlp.shared_experts." : "mlp.");
    groups.push_back({mlp + "gate_proj", mlp + "up_proj"});
    groups.push_back({mlp + "down_proj"});
  }
  return groups;
}

}  // namespace sft::config
