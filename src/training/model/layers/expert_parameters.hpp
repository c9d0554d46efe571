// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parameters of a layer with experts. Pure.

#include <string>

#include "model/unit_builder.hpp"
#include "sft/model/layers/expert_mlp.hpp"

namespace sft::model {

/// Declares the matrices of all experts, and their biases, those that a grouped product takes together one after the
/// other, in a part of their own; and their router and adapters. `path`: of the layer's module, "model.layers.0.mlp".
[[nodiscard]] ExpertParameters declare_experts(UnitBuilder& unit, const config::Model& model, const std::string& path);

}  // namespace sft::model
