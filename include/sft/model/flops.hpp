// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts of a model's weights, and the arithmetic of its steps. Pure.

#include <cstdint>

#include "sft/model/architecture.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

/// FLOPs of forward and backward passes over these tokens: 6 for each weight in a product and token, and those of
/// layers without these products, as Sublayer counts them. `has_adapters`: 4 for weights without gradient, 6 for
/// adapters and for copies that are trained whole with them.
[[nodiscard]] double model_flops(const Architecture& architecture, bool has_adapters, const TokenCounts& tokens);

struct WeightCounts {
  /// Parameters, biases, norms and corrections of routers included; tied embeddings once.
  std::int64_t all;
  /// Weights that a token uses in matrix products: all matrices but the embedding table and experts that it does not
  /// go through, and the head also when tied.
  std::int64_t of_token;
};
/// Counts of a model that config::validate took, without adapters. The model that was asked for last, by thread, is not
/// counted again.
[[nodiscard]] WeightCounts weight_counts(const config::Model& model);

}  // namespace sft::model
