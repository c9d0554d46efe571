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
#include <tuple>
#include <utility>
#include <vector>

#include "config_fields.hpp"
#include "families/family.hpp"
#include "family_rules.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/expert_factors.hpp"
#include "sft/hub/tensor_map.hpp"

namespace sft::hub {

namespace {

using nlohmann::ordered_json;

/// Fields of adapters that are not plain LoRA; each must say nothing.
constexpr const char* foreign_fields[] = {"layer_replication",       "use_qalora",     "lora_bias",
                                          "trainable_token_indices", "fan_in_fan_out", "exclude_modules",
                                          "alora_invocation_tokens", "arrow_config"};

constexpr const char* only_lora =
    "only LoRA and DoRA on linear layers, LoRA on experts, and modules trained whole, can be merged";
constexpr const char* merge_elsewhere = "merge this adapter with PEFT's merge_and_unload";

TargetModules read_targets(ConfigFields& fields) {
  const nlohmann::json& value = fields.value("target_modules");
  if (value.is_null()) return TargetModules::named(default_targets({}, false));
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

ordered_json json_of(double number) {
  if (number == std::trunc(number)) return static_cast<std::int64_t>(number);
  return number;
}

ordered_json json_of(const config::ModuleNumbers& numbers) {
  ordered_json object = ordered_json::object();
  for (const auto& [pattern, number] : numbers) object[pattern] = json_of(number);
  return object;
}

template <class Item>
ordered_json json_of(const std::vector<Item>& items) {
  return items.empty() ? ordered_json(nullptr) : ordered_json(items);
}

/// Of adapters beside whole weights.
ordered_json json_of(const config::AdapterInit& init) {
  if (init.kind == config::LoraInit::gaussian) return "gaussian";
  return init.kind == config::LoraInit::zero_b;
}

/// The module of a tensor of an adapter that ends with `suffix`; empty: it ends otherwise.
std::string module_of(const std::string& tensor, std::string_view suffix) {
  constexpr std::string_view prefix = "base_model.model.";
  if (!tensor.starts_with(prefix) || !tensor.ends_with(suffix)) return "";
  return tensor.substr(prefix.size(), tensor.size() - prefix.size() - suffix.size());
}

/// rank_pattern and alpha_pattern that name each adapted module of transformers.
std::pair<ordered_json, ordered_json> sizes_of_each(const config::Lora& lora, const FileLayout& layout,
                                                    const std::vector<std::string>& tensors) {
  std::map<std::string, config::AdapterSize> sizes;
  for (const std::string& tensor : tensors) {
    const std::string module = module_of(tensor, ".lora_A.weight");
    if (module.empty()) continue;
    if (const auto factor = expert_factor_of(tensor)) {
      sizes.emplace(module_in_transformers(layout, factor->experts) + "." + factor->parameter,
                    lora.size_of(factor->path()));
      continue;
    }
    const config::AdapterSize part = lora.size_of(module);
    sizes.emplace(module_in_transformers(layout, module), part);
  }
  ordered_json ranks = ordered_json::object(), alphas = ordered_json::object();
  for (const auto& [module, size] : sizes) {
    const auto rank = static_cast<double>(size.rank);
    ranks[module] = size.rank;
    alphas[module] = json_of(size.scale * (lora.use_rslora ? std::sqrt(rank) : rank));
  }
  return {std::move(ranks), std::move(alphas)};
}

/// Whether modules of this name are stored with others as one.
bool is_part(const FileLayout& layout, const std::string& name) {
  const auto is_it = [&](const PartRule& part) { return std::string_view(part.module).ends_with("." + name); };
  return std::ranges::any_of(rules_of(layout.family), [&](const Rule& rule) {
    return rule.parts.size() > 1 && std::ranges::any_of(rule.parts, is_it);
  });
}

/// The largest sum of the ranks of adapters on parts of one module of transformers (TensorMap).
std::int64_t common_rank(const config::Lora& lora, const FileLayout& layout, const std::vector<std::string>& tensors) {
  std::map<std::string, std::int64_t> sums;
  for (const std::string& tensor : tensors) {
    const std::string module = module_of(tensor, ".lora_A.weight");
    if (!module.empty()) sums[module_in_transformers(layout, module)] += lora.size_of(module).rank;
  }
  std::int64_t largest = 0;
  for (const auto& [module, sum] : sums) largest = std::max(largest, sum);
  return largest;
}

/// Those that were trained whole, as transformers calls them.
std::vector<std::string> whole_modules_of(const FileLayout& layout, const std::vector<std::string>& tensors) {
  std::vector<std::string> modules;
  for (const std::string& tensor : tensors) {
    const std::string module = module_of(tensor, ".weight");
    const bool is_of_adapter = module.ends_with("lora_A") || module.ends_with("lora_B");
    if (!module.empty() && !is_of_adapter) modules.push_back(module_in_transformers(layout, module));
  }
  return modules;
}

config::ModuleNumbers read_numbers(ConfigFields& fields, const std::string& name) {
  config::ModuleNumbers numbers;
  const nlohmann::json& value = fields.value(name);
  if (value.is_null()) return numbers;
  if (!value.is_object()) fields.refuse(name, "it is an object of numbers", "copy the folder again");
  for (const auto& [pattern, number] : value.items()) {
    if (!number.is_number() || !(number.get<double>() > 0)) {
      fields.refuse(name, "its values are numbers above 0", "copy the folder again");
    }
    numbers.emplace_back(pattern, number.get<double>());
    try {
      static_cast<void>(config::matches_end(pattern, ""));
    } catch (const std::invalid_argument& reason) {
      fields.refuse(name, fmt::format("{} is no regular expression: {}", pattern, reason.what()), "correct it");
    }
  }
  return numbers;
}

std::vector<std::int64_t> read_layers(ConfigFields& fields) {
  const nlohmann::json& value = fields.value("layers_to_transform");
  const nlohmann::json list = value.is_number_integer() ? nlohmann::json::array({value}) : value;
  std::vector<std::int64_t> layers;
  if (list.is_null()) return layers;
  const bool are_numbers = list.is_array() && std::ranges::all_of(list, [](const nlohmann::json& item) {
                             return item.is_number_unsigned();
                           });
  if (!are_numbers) {
    fields.refuse("layers_to_transform", "it is a number or a list of numbers", "copy the folder again");
  }
  for (const nlohmann::json& item : list) layers.push_back(item.get<std::int64_t>());
  return layers;
}

/// A text or a list of texts; none where it is null.
std::vector<std::string> read_texts(ConfigFields& fields, const std::string& name) {
  const nlohmann::json& value = fields.value(name);
  if (value.is_null()) return {};
  if (value.is_string()) return {value.get<std::string>()};
  return fields.texts(name);
}

/// Refuses adapters whose beginning changed the weights that they belong to.
void check_init(ConfigFields& fields) {
  const nlohmann::json& value = fields.value("init_lora_weights");
  if (!value.is_string() || value == "gaussian" || value == "eva" || value == "orthogonal") return;
  fields.refuse("init_lora_weights", "such adapters belong to weights that were changed when they were made",
                merge_elsewhere);
}

}  // namespace

std::vector<std::string> default_targets(const FileLayout& layout, bool adapts_experts) {
  const Family* const family = find_family(layout.family);
  const bool has_targets = !adapts_experts || (family != nullptr && family->adapts_attention_beside_experts);
  return has_targets ? std::vector<std::string>{"q_proj", "v_proj"} : std::vector<std::string>{};
}

std::string make_adapter_config(const config::Lora& trained, const std::string& base_model,
                                const std::vector<std::string>& linear_names, const FileLayout& layout,
                                const std::vector<std::string>& tensors) {
  config::Lora lora = trained.beside_whole_weights();
  std::vector<std::string> own_names;
  std::ranges::copy_if(linear_names, std::back_inserter(own_names),
                       [&](const std::string& name) { return lora.adapts(name); });
  const std::map<std::string, std::int64_t> modules = adapted_modules(layout, own_names);
  const bool are_fused = std::ranges::any_of(own_names, [&](const std::string& name) { return is_part(layout, name); });
  const bool has_patterns = !lora.rank_pattern.empty() || !lora.alpha_pattern.empty();
  std::vector<std::string> targets;
  std::int64_t most_adapters = 0;
  for (const auto& [module, num_adapters] : modules) {
    targets.push_back(module);
    most_adapters = std::max(most_adapters, num_adapters);
  }
  ordered_json ranks = json_of(lora.rank_pattern), alphas = json_of(lora.alpha_pattern);
  if (are_fused) {
    ranks = alphas = ordered_json::object();
    lora.lora_r = tensors.empty() ? most_adapters * lora.lora_r : common_rank(lora, layout, tensors);
    lora.use_rslora = false;
  } else if (has_patterns && layout.is_tower()) {
    std::tie(ranks, alphas) = sizes_of_each(lora, layout, tensors);
  }
  ordered_json object = {{"peft_type", "LORA"},
                         {"task_type", "CAUSAL_LM"},
                         {"base_model_name_or_path", base_model},
                         {"r", lora.lora_r},
                         {"lora_alpha", json_of(lora.lora_alpha)},
                         {"lora_dropout", lora.lora_dropout},
                         {"use_rslora", lora.use_rslora},
                         {"use_dora", lora.use_dora},
                         {"target_modules", targets},
                         {"target_parameters", json_of(lora.lora_target_parameters)},
                         {"rank_pattern", ranks},
                         {"alpha_pattern", alphas},
                         {"bias", "none"},
                         {"fan_in_fan_out", false},
                         {"inference_mode", true},
                         {"layers_to_transform", json_of(lora.layers_to_transform)},
                         {"layers_pattern", json_of(lora.layers_pattern)},
                         {"init_lora_weights", json_of(lora.init_lora_weights)},
                         {"modules_to_save", json_of(lora.modules_to_save)}};
  if (layout.is_tower()) {
    // With a regular expression PEFT takes no layers_to_transform.
    const std::string layers = lora.layers_to_transform.empty()
                                   ? ""
                                   : fmt::format("layers\\.({})\\.", fmt::join(lora.layers_to_transform, "|"));
    object["target_modules"] = fmt::format("model\\.language_model\\.{}.*\\.({})", layers, fmt::join(targets, "|"));
    object["layers_to_transform"] = object["layers_pattern"] = nullptr;
    object["modules_to_save"] = json_of(whole_modules_of(layout, tensors));
  }
  if (base_model.empty()) object["base_model_name_or_path"] = nullptr;
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
  lora.use_dora = fields.truth("use_dora", false);
  lora.rank_pattern = read_numbers(fields, "rank_pattern");
  lora.alpha_pattern = read_numbers(fields, "alpha_pattern");
  lora.layers_to_transform = read_layers(fields);
  lora.layers_pattern = read_texts(fields, "layers_pattern");
  lora.modules_to_save = read_texts(fields, "modules_to_save");
  lora.lora_target_parameters = read_texts(fields, "target_parameters");
  check_init(fields);
  if (lora.lora_r < 1) fields.refuse("r", "the rank is 1 or more", "copy the folder again");
  return {std::move(lora), read_targets(fields), fields.truth("ensure_weight_tying", false)};
}

}  // namespace sft::hub
