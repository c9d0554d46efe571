// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/adapter_config.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "config_fields.hpp"
#include "sft/core/error.hpp"

namespace sft::hub {

namespace {

using nlohmann::ordered_json;

std::vector<std::string> target_names(const config::Lora& lora) {
  std::vector<std::string> names;
  for (const std::string& name : config::linear_layer_names()) {
    if (lora.adapts(name)) names.push_back(name);
  }
  return names;
}

/// Fields of adapters that are not plain LoRA; each must say nothing.
constexpr const char* foreign_fields[] = {"use_dora",
                                          "rank_pattern",
                                          "alpha_pattern",
                                          "modules_to_save",
                                          "layer_replication",
                                          "layers_to_transform",
                                          "use_qalora",
                                          "lora_bias",
                                          "trainable_token_indices",
                                          "target_parameters",
                                          "fan_in_fan_out",
                                          "exclude_modules",
                                          "alora_invocation_tokens",
                                          "arrow_config"};

constexpr const char* only_lora = "only plain LoRA on linear layers can be merged";
constexpr const char* merge_elsewhere = "merge this adapter with PEFT's merge_and_unload";

/// What PEFT takes for the families of sft where an adapter names no modules.
const std::vector<std::string> default_targets{"q_proj", "v_proj"};

TargetModules read_targets(ConfigFields& fields) {
  const nlohmann::json& value = fields.value("target_modules");
  if (value.is_null()) return TargetModules::named(default_targets);
  if (!value.is_string()) return TargetModules::named(fields.texts("target_modules"));
  const auto pattern = value.get<std::string>();
  const bool is_shorthand = std::ranges::equal(pattern, std::string_view("all-linear"), [](char given, char wanted) {
    return given == wanted || (given >= 'A' && given <= 'Z' && given + ('a' - 'A') == wanted);
  });
  if (is_shorthand) return TargetModules::all_linear();
  try {
    return TargetModules::matching(pattern);
  } catch (const std::invalid_argument& reason) {
    fields.refuse("target_modules", std::string("it is no regular expression: ") + reason.what(),
                  "correct it; a list names modules one by one");
  }
}

}  // namespace

std::string make_adapter_config(const config::Lora& lora, const std::string& base_model) {
  ordered_json object = {{"peft_type", "LORA"},
                         {"task_type", "CAUSAL_LM"},
                         {"base_model_name_or_path", base_model},
                         {"r", lora.lora_r},
                         {"lora_alpha", lora.lora_alpha},
                         {"lora_dropout", lora.lora_dropout},
                         {"use_rslora", lora.use_rslora},
                         {"target_modules", target_names(lora)},
                         {"bias", "none"},
                         {"fan_in_fan_out", false},
                         {"inference_mode", true},
                         {"init_lora_weights", true},
                         {"modules_to_save", nullptr}};
  if (base_model.empty()) object["base_model_name_or_path"] = nullptr;
  if (const auto whole = static_cast<std::int64_t>(lora.lora_alpha); static_cast<double>(whole) == lora.lora_alpha) {
    object["lora_alpha"] = whole;
  }
  return object.dump(2) + "\n";
}

AdapterConfig read_adapter_config(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "adapter_config.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw_data_error("cannot find " + path, "an adapter in PEFT's format describes itself there",
                     "give the folder that PEFT's save_pretrained or sft wrote, such as output/chat/adapter");
  }
  const nlohmann::json object = read_json_object(path);
  ConfigFields fields(object, path);
  if (fields.text("peft_type", "") != "LORA") fields.refuse("peft_type", only_lora, merge_elsewhere);
  if (fields.text("bias", "none") != "none") fields.refuse("bias", only_lora, merge_elsewhere);
  for (const char* name : foreign_fields) {
    const nlohmann::json& value = fields.value(name);
    const bool says_nothing =
        value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
    if (!says_nothing) fields.refuse(name, only_lora, merge_elsewhere);
  }
  config::Lora lora;
  lora.use_peft = true;
  lora.lora_r = fields.required_integer("r");
  lora.lora_alpha = fields.number("lora_alpha", static_cast<double>(lora.lora_r));
  lora.lora_dropout = fields.number("lora_dropout", 0.0);
  lora.use_rslora = fields.truth("use_rslora", false);
  if (lora.lora_r < 1) fields.refuse("r", "the rank is 1 or more", "copy the folder again");
  return {std::move(lora), read_targets(fields)};
}

}  // namespace sft::hub
