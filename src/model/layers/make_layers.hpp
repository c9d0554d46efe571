// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which layers there are. Pure.

#include <memory>
#include <string>

#include "sft/config/config.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

class UnitBuilder;

/// The sublayers of the block called `block`, "model.layers.0", whose parameters they declare in the last unit.
[[nodiscard]] std::shared_ptr<Sublayer> make_mixer(UnitBuilder& unit, const config::Model& model, const LayerPlan& plan,
                                                   const std::string& block);
[[nodiscard]] std::shared_ptr<Sublayer> make_mlp(UnitBuilder& unit, const config::Model& model, const LayerPlan& plan,
                                                 const std::string& block);

}  // namespace sft::model
