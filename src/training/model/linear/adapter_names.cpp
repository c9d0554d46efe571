// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear/adapter_names.hpp"

#include <fmt/core.h>

#include <string_view>

namespace sft::model {

bool is_factor_of_adapter(const std::string& parameter) {
  return parameter.starts_with(peft_prefix) &&
         (parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight"));
}

std::optional<AdapterNames> adapter_of_a(const std::string& parameter) {
  constexpr std::string_view suffix = ".lora_A.weight";
  if (!parameter.starts_with(peft_prefix) || !parameter.ends_with(suffix)) return std::nullopt;
  const std::string module =
      parameter.substr(peft_prefix.size(), parameter.size() - peft_prefix.size() - suffix.size());
  return AdapterNames{.module = module,
                      .a = parameter,
                      .b = fmt::format("{}{}.lora_B.weight", peft_prefix, module),
                      .weight = module + ".weight"};
}

}  // namespace sft::model
