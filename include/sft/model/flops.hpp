// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of a model's steps. Pure.

#include "sft/model/architecture.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

/// FLOPs of forward and backward passes over these tokens: 6 for each weight in a product and token, and those of
/// layers without these products, as Sublayer counts them. `has_adapters`: 4 for weights without gradient, 6 for
/// adapters and for copies that are trained whole with them.
[[nodiscard]] double model_flops(const Architecture& architecture, bool has_adapters, const TokenCounts& tokens);

}  // namespace sft::model
