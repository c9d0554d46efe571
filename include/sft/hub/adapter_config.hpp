// SPDX-License-Identifier: Apache-2.0
#pragma once
// adapter_config.json of a PEFT folder <-> the [lora] section.

#include <string>

#include "sft/config/config.hpp"
#include "sft/hub/target_modules.hpp"

namespace sft::hub {

/// The adapter_config.json of adapters that sft trained, as PEFT writes it. `base_model`: folder or name of the model
/// that they belong to; empty: not known.
[[nodiscard]] std::string make_adapter_config(const config::Lora& lora, const std::string& base_model);

/// What an adapter_config.json says.
struct AdapterConfig {
  config::Lora lora;  ///< but for lora_target_modules, which keeps its default: PEFT's may name modules one by one
  TargetModules targets;
};

/// Reads FOLDER/adapter_config.json. Adapters other than plain LoRA on linear layers (DoRA, biases, whole modules,
/// ranks that differ ...) are refused by field, as a data Error.
[[nodiscard]] AdapterConfig read_adapter_config(const std::string& folder);

}  // namespace sft::hub
