// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adapters of experts by the names of their matrices. The model has two for each expert, A (r, in) and B (out, r), of
// which B of gate and up are a tensor each: model.layers.0.mlp.experts.3.gate_up_proj.lora_A.weight, and
// gate_proj.lora_B.weight beside it. PEFT 0.21 (ParamWrapper in tuners/lora/layer.py) has one of all experts, named
// after the module: A (E r, in) with one expert behind the other, and B (out, r E) with the expert as the innermost
// index. Where both weights of the module have adapters, those of gate_up_proj are below a further ".base_layer".

#include <cstdint>
#include <optional>
#include <string>

namespace sft::hub {

/// A matrix of the model for one expert. Pure.
struct ExpertFactor {
  std::string experts;    ///< "model.layers.0.mlp.experts"
  std::string parameter;  ///< of transformers: "gate_up_proj" or "down_proj"
  std::int64_t expert = 0;
  bool is_a = false;
  int part = 0, num_parts = 1;  ///< of B: rows of B are these parts, one behind the other

  /// What size_of and expert_adapter_of of config::Lora know it by.
  [[nodiscard]] std::string path() const { return experts + "." + parameter; }
};
/// `name`: with PEFT's prefix. None for other tensors.
[[nodiscard]] std::optional<ExpertFactor> expert_factor_of(const std::string& name);

/// A matrix of PEFT for all experts of a layer.
struct StackedFactor {
  std::string experts;
  bool is_inner = false;  ///< below ".base_layer"
  bool is_a = false;
};
/// `name`: with PEFT's prefix, on the model's modules. None for other tensors.
[[nodiscard]] std::optional<StackedFactor> stacked_factor_of(const std::string& name);

}  // namespace sft::hub
