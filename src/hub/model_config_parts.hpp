// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of the reader of config.json.

#include "config_fields.hpp"
#include "families.hpp"
#include "sft/config/config.hpp"

namespace sft::hub {

inline constexpr const char* other_model = "use another model";

[[nodiscard]] inline bool is_gemma(Family family) { return family == Family::gemma2 || family == Family::gemma3; }

/// Reads which layers have sliding-window attention: sets model.sliding_window and layer_types.
void read_windows(ConfigFields& fields, const FamilyDefaults& family, config::Model& model);

/// Reads what layers with experts are, and which they are, of a family other than GLM.
void read_experts(ConfigFields& fields, Family family, config::Model& model);

/// GLM-4.5: sigmoid scores, an MLP beside the experts, and MLPs alone in the first layers. transformers has no
/// auxiliary loss for it, and leaves the layers unread that predict further tokens.
void read_experts_of_glm(ConfigFields& fields, config::Model& model);

}  // namespace sft::hub
