// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/adapter_config.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "config_fields.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/tensor_map.hpp"

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
constexpr const char* foreign_fields[] = {
    "use_dora",       "modules_to_save", "layer_replication",       "layers_to_transform",
    "use_qalora",     "lora_bias",       "trainable_token_indices", "target_parameters",
    "fan_in_fan_out", "exclude_modules", "alora_invocation_tokens", "arrow_config"};

constexpr const char* only_lora = "only plain LoRA on linear layers can be merged";
constexpr const char* merge_elsewhere = "merge this adapter with PEFT's merge_and_unload";

/// What PEFT takes for the families of sft where an adapter names no modules.
const std::vector<std::string> default_targets{"q_proj", "v_proj"};

/// One of the patterns by module: what each that is matched has, by a regular expression, as PEFT 0.21 reads it.
template <class Value, class Read>
std::vector<std::pair<TargetModules, Value>> read_pattern(ConfigFields& fields, const char* name, const Read& read) {
  std::vector<std::pair<TargetModules, Value>> result;
  const nlohmann::json& value = fields.value(name);
  if (value.is_null()) return result;
  if (!value.is_object()) fields.refuse(name, "it has a value for each pattern of names", "correct the file");
  ConfigFields values(value, fields.source());
  for (const auto& [pattern, ignored] : value.items()) {
    try {
      result.emplace_back(TargetModules::matching(fmt::format("(.*\\.)?({})", pattern)), read(values, pattern));
    } catch (const std::invalid_argument& reason) {
      fields.refuse(name, fmt::format("{} is no regular expression: {}", pattern, reason.what()), "correct it");
    }
  }
  return result;
}

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

std::string make_adapter_config(const config::Lora& lora, const std::string& base_model, const FileLayout& layout) {
  const std::map<std::string, std::int64_t> modules = adapted_modules(layout, target_names(lora));
  std::vector<std::string> targets;
  ordered_json ranks = ordered_json::object(), alphas = ordered_json::object();
  for (const auto& [module, num_adapters] : modules) {
    targets.push_back(module);
    if (num_adapters == 1) continue;
    const auto count = static_cast<double>(num_adapters);
    ranks[module] = num_adapters * lora.lora_r;
    alphas[module] = lora.lora_alpha * (lora.use_rslora ? std::sqrt(count) : count);
  }
  ordered_json object = {{"peft_type", "LORA"},
                         {"task_type", "CAUSAL_LM"},
                         {"base_model_name_or_path", base_model},
                         {"r", lora.lora_r},
                         {"lora_alpha", lora.lora_alpha},
                         {"lora_dropout", lora.lora_dropout},
                         {"use_rslora", lora.use_rslora},
                         {"target_modules", targets},
                         {"rank_pattern", ranks},
                         {"alpha_pattern", alphas},
                         {"bias", "none"},
                         {"fan_in_fan_out", false},
                         {"inference_mode", true},
                         {"init_lora_weights", true},
                         {"modules_to_save", nullptr}};
  if (layout.is_tower()) {
    object["target_modules"] = fmt::format("model\\.language_model\\..*\\.({})", fmt::join(targets, "|"));
  }
  if (base_model.empty()) object["base_model_name_or_path"] = nullptr;
  if (const auto whole = static_cast<std::int64_t>(lora.lora_alpha); static_cast<double>(whole) == lora.lora_alpha) {
    object["lora_alpha"] = whole;
  }
  return object.dump(2) + "\n";
}

std::int64_t AdapterConfig::rank_of(const std::string& module) const {
  for (const auto& [pattern, rank] : ranks) {
    if (pattern.contains(module)) return rank;
  }
  return lora.lora_r;
}

double AdapterConfig::scale_of(const std::string& module) const {
  config::Lora own = lora;
  own.lora_r = rank_of(module);
  for (const auto& [pattern, alpha] : alphas) {
    if (!pattern.contains(module)) continue;
    own.lora_alpha = alpha;
    break;
  }
  return own.scale();
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
  const auto read_rank = [](ConfigFields& values, const std::string& name) {
    const std::int64_t rank = values.required_integer(name);
    if (rank < 1) values.refuse(name, "the rank is 1 or more", "copy the folder again");
    return rank;
  };
  const auto read_alpha = [](ConfigFields& values, const std::string& name) { return values.number(name, 1.0); };
  AdapterConfig result{std::move(lora), read_targets(fields)};
  result.ranks = read_pattern<std::int64_t>(fields, "rank_pattern", read_rank);
  result.alphas = read_pattern<double>(fields, "alpha_pattern", read_alpha);
  return result;
}

}  // namespace sft::hub
