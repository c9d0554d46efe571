// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sublayers of a block, and the layers that there are for them. Pure.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

class UnitBuilder;

/// A sublayer before it is made.
struct SublayerPlan {
  std::string module;  ///< "self_attn": of its parameters, below the block's path
  /// Modules of the norms around it, LayerPlan::norms_inputs and norms_branches; empty: there is none.
  std::string input_norm, branch_norm;
  /// Declares its parameters in the last unit. `path`: of its module.
  std::function<std::shared_ptr<Sublayer>(UnitBuilder& unit, const std::string& path)> make;
};

/// The sublayers of block number `block`, one at least, in the order in which the residual stream meets them. `model`
/// and `plan` outlive them.
[[nodiscard]] std::vector<SublayerPlan> plan_sublayers(const config::Model& model, const LayerPlan& plan,
                                                       std::size_t block);

}  // namespace sft::model
