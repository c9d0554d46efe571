// SPDX-License-Identifier: Apache-2.0
#pragma once
// The linear layers of a model's blocks by their paths, such as model.layers.0.self_attn.q_proj.

#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::config {

/// The linear modules of all blocks but experts, in groups whose matrices are one product and are kept alike.
[[nodiscard]] std::vector<std::vector<std::string>> linear_module_groups(const Model& model);

}  // namespace sft::config
