// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rotary embedding in a config.json: rope_theta with rope_scaling (transformers 4), or rope_parameters (5).

#include <string>
#include <vector>

#include "config_fields.hpp"
#include "sft/config/config.hpp"

namespace sft::hub {

/// Sets model.rope_theta and model.rope_scaling, as transformers 5 would understand the fields; where 4 would not
/// agree, a sentence in `warnings` says so. model.max_position_embeddings is set.
void read_rope(ConfigFields& fields, config::Model& model, std::vector<std::string>& warnings);

}  // namespace sft::hub
