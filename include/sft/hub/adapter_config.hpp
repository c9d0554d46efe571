// SPDX-License-Identifier: Apache-2.0
#pragma once
// adapter_config.json of a PEFT folder <-> the [lora] section.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/config/module_pattern.hpp"
#include "sft/hub/file_layout.hpp"

namespace sft::hub {

/// Which modules of a model adapters belong to: the field target_modules of PEFT. A module is named by its path in the
/// model, such as model.layers.0.self_attn.q_proj, and matched as PEFT 0.21 does.
class TargetModules {
 public:
  /// Those with one of these names: the whole path, or the end of it behind a dot.
  [[nodiscard]] static TargetModules named(std::vector<std::string> names);
  /// Those whose whole path the regular expression matches. Throws std::invalid_argument with the reason for a text
  /// that is none.
  [[nodiscard]] static TargetModules matching(const std::string& pattern);
  /// All linear layers of the blocks, which adapters in blocks belong to: all but the output layer.
  [[nodiscard]] static TargetModules all_linear();

  [[nodiscard]] bool contains(const std::string& module) const;

 private:
  bool are_all_ = false;  ///< in place of names
  std::vector<std::string> names_;
  std::optional<config::ModulePattern> pattern_;  ///< in place of names
};

/// The linear layers that PEFT adapts in models with these files where none are named. `adapts_experts`: weights of
/// experts are.
[[nodiscard]] std::vector<std::string> default_targets(const FileLayout& layout, bool adapts_experts);

/// The adapter_config.json of adapters that sft trained, as PEFT writes it. `base_model`: folder or name of the model
/// that they belong to; empty: not known. `linear_names`: of its linear layers, such as q_proj. `layout`: of its files.
/// Adapters on parts of one module of transformers are one there, of the sum of their ranks. Where there are any, all
/// adapters have the largest rank and their scales are in B (TensorMap), so that readers who know no patterns, as
/// llama.cpp and vLLM, compute the same function. In a model of several towers target_modules is a regular expression
/// that means the text tower. `tensors`: those of the adapter, by PEFT's names on the model's modules; where patterns
/// of `lora` are about a tower, each module of these is named with its rank, and so is each module that was trained
/// whole. Adapters that began with a part of the weights are those of twice the rank beside the model as it was
/// (config::Lora::beside_whole_weights).
[[nodiscard]] std::string make_adapter_config(const config::Lora& lora, const std::string& base_model,
                                              const std::vector<std::string>& linear_names,
                                              const FileLayout& layout = {},
                                              const std::vector<std::string>& tensors = {});

/// What an adapter_config.json says.
struct AdapterConfig {
  config::Lora lora;  ///< but for lora_target_modules, which keeps its default: PEFT's may name modules one by one
  TargetModules targets;
  /// PEFT trained one table for a tied head and the embeddings: `lm_head` among the tensors is that table again.
  bool ensures_weight_tying = false;
};

/// Reads FOLDER/adapter_config.json. Adapters other than plain LoRA on linear layers and experts, with or without
/// modules that were trained whole, are refused by field (DoRA, biases, weights that were changed at the start ...), as
/// a data Error.
[[nodiscard]] AdapterConfig read_adapter_config(const std::string& folder);

}  // namespace sft::hub
