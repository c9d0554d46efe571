// SPDX-License-Identifier: Apache-2.0
#pragma once
// The layers that there are, and the choice among them. Pure.

#include <cstddef>
#include <memory>
#include <string>

#include "sft/config/config.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

class UnitBuilder;

/// The block that layers are made for.
struct BlockPlace {
  std::size_t number;  ///< from 0
  std::string path;    ///< "model.layers.0"
};
/// The sublayers of a block. They declare their parameters in the last unit.
[[nodiscard]] std::shared_ptr<Sublayer> make_mixer(UnitBuilder& unit, const config::Model& model, const LayerPlan& plan,
                                                   const BlockPlace& block);
[[nodiscard]] std::shared_ptr<Sublayer> make_mlp(UnitBuilder& unit, const config::Model& model, const LayerPlan& plan,
                                                 const BlockPlace& block);

}  // namespace sft::model
