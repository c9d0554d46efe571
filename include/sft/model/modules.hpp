// SPDX-License-Identifier: Apache-2.0
#pragma once
// The modules of a model that adapters, 4 bits and other keys name, as its layers declare them. Pure; a model is one
// that config::validate took.

#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/model/linear/parameters.hpp"

namespace sft::model {

/// The linear layers of all blocks, in groups that are one product and are kept alike: q, k and v, say. Experts are not
/// among them.
[[nodiscard]] std::vector<std::vector<LinearMember>> linear_modules(const config::Model& model);
/// Their names, such as q_proj, each once.
[[nodiscard]] std::vector<std::string> names_of(const std::vector<std::vector<LinearMember>>& modules);

/// Refuses keys of [lora] that name modules which the model does not have, or that say of them what cannot be: throws a
/// configuration Error. A config::CheckModules.
void check_modules(const config::Config& config);

}  // namespace sft::model
