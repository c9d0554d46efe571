// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of the parameters of adapters, which are PEFT's. Pure.

#include <optional>
#include <string>

namespace sft::model {

/// Before the names of parameters that PEFT adds to a model.
inline const std::string peft_prefix = "base_model.model.";

/// Whether the parameter is the A or the B of an adapter, by its name.
[[nodiscard]] bool is_factor_of_adapter(const std::string& parameter);

/// The A and B of an adapter of a linear layer, and the weight that it belongs to, by name.
struct AdapterNames {
  std::string module;  ///< its path in the model
  std::string a, b, weight;
};
/// The names of the adapter whose A is `parameter`; none where the parameter is no A.
[[nodiscard]] std::optional<AdapterNames> adapter_of_a(const std::string& parameter);

}  // namespace sft::model
