// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rotary frequencies with the scalings of published models. Pure.

#include <vector>

#include "sft/config/config.hpp"

namespace sft::model {

/// Inverse frequencies (head_dim / 2): plain (Su et al. 2021), linear position interpolation (Chen et al. 2023), or
/// llama3 (Grattafiori et al. 2024: long wavelengths divided by factor, a smooth ramp between).
[[nodiscard]] std::vector<double> inverse_frequencies(const config::Model& model);

}  // namespace sft::model
