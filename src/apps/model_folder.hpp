// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model folder in hub format has beside its tensors.

#include <cstdint>
#include <string>

#include "sft/config/config.hpp"
#include "sft/hub/weights.hpp"

namespace sft::apps {

/// What to do about weights that are not those of the config.json beside them.
inline constexpr const char* mismatched_folder =
    "its config.json and its weights do not belong together: copy or download the folder again";

/// Makes config.json and copies the companions of the model's origin (tokenizer ...) into `folder`; a warning says when
/// they are gone. `max_length`: of the rows that the model was trained on. One rank.
void write_companions(const std::string& folder, const config::Model& model, hub::WeightType type,
                      std::int64_t max_length);

/// Makes the safetensors files of the plan, without their tensors, and their index. One rank.
void write_weight_files(const hub::WeightsPlan& plan, const std::string& folder);

}  // namespace sft::apps
