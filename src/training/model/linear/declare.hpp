// SPDX-License-Identifier: Apache-2.0
#pragma once
// Declarations of linear layers of blocks: their matrices, which may be kept in 4 bits or sent in 8, their biases and
// their adapters. Pure.

#include <cstdint>
#include <vector>

#include "model/unit_builder.hpp"

namespace sft::model {

/// A layer of these matrices, fused in their order.
[[nodiscard]] Linear declare_linear(UnitBuilder& unit, std::vector<LinearMember> members);
/// Adds biases of all its matrices.
void declare_bias(UnitBuilder& unit, Linear& layer);
/// Adds the adapters that the run has of the layers' matrices, which are counted from `number` on. The number of the
/// matrix after the last one.
std::uint64_t declare_adapters(UnitBuilder& unit, std::vector<Linear>& layers, std::uint64_t number);

}  // namespace sft::model
