// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rotary frequencies with the scalings of published models. Pure.

#include <cstdint>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::model {

/// One rotary embedding of a model: it turns the pairs of `dims` dims of every head.
struct Rope {
  std::int64_t dims;
  double theta;
  config::RopeScaling scaling;
  double query_growth = 0.0;  ///< RopeScale::beta
};

/// Those that layers of the model have; LayerPlan numbers them. The second, if any, is that of queries alone, or that
/// of sliding layers.
[[nodiscard]] std::vector<Rope> ropes(const config::Model& model);

/// Inverse frequencies (dims / 2): plain (Su et al. 2021), linear position interpolation (Chen et al. 2023), yarn
/// (Peng et al. 2023: low frequencies divided by factor, a ramp over the dims between; its attention_factor is not in
/// them), llama3 (Grattafiori et al. 2024: long wavelengths divided by factor, a smooth ramp between), or longrope
/// (Ding et al. 2024: divided by a list). Those of dynamic scaling are plain, and those of longrope divided by
/// short_factor, within the original context, beyond which config::validate_length lets no text.
[[nodiscard]] std::vector<double> inverse_frequencies(const Rope& rope);

}  // namespace sft::model
