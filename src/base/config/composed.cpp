// SPDX-License-Identifier: Apache-2.0
#include "config/composed.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "config/foreign_names.hpp"
#include "config/quoting.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

/// Objects whose entries are names that mean the same outside of them, once this stands in front.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> blocks{{{"fsdp_config", "fsdp_"},
                                                                               {"parallelism_config", ""},
                                                                               {"accelerator_config", ""},
                                                                               {"model_init_kwargs", ""},
                                                                               {"fp8_config", "fp8_"}}};

/// Objects whose entries have a meaning of their own: rows NAME.ENTRY of the table of foreign names.
constexpr std::array<std::string_view, 2> own_names{"gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"};

/// The value without quotes; as it is where these are wrong, which its key says.
std::string value_of(const Written& written) {
  try {
    return unquoted(written.value);
  } catch (const std::invalid_argument&) {
    return written.value;
  }
}

/// The JSON object of a text; Python's quotes and words, which users copy, are read as well.
nlohmann::ordered_json object_of(const Written& written) {
  std::string text = value_of(written);
  nlohmann::ordered_json object = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) {
    std::ranges::replace(text, '\'', '"');
    for (const auto& [python, json] : {std::pair{"True", "true"}, {"False", "false"}, {"None", "null"}}) {
      for (std::size_t at = text.find(python); at != std::string::npos; at = text.find(python, at)) {
        text.replace(at, std::string_view(python).size(), json);
      }
    }
    object = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  }
  if (object.is_object()) return object;
  throw_config_error(fmt::format("`{} = {}` {} cannot be read", written.full_name(), written.value, written.place),
                     "it is no JSON object", R"(write {"NAME": VALUE}, in quotes on a command line)");
}

std::string text_of(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "none";
  if (value.is_string()) return value.get<std::string>();
  return value.dump();
}

std::vector<Written> entries_of(const Written& written, const std::string& prefix, bool is_named_outside) {
  std::vector<Written> parts;
  const nlohmann::ordered_json object = object_of(written);
  for (const auto& [name, value] : object.items()) {
    if (is_named_outside) {
      const std::string full = name.starts_with(prefix) ? name : prefix + name;
      parts.push_back({"", full, text_of(value), fmt::format("in {} {}", written.name, written.place)});
    } else {
      parts.push_back({"", fmt::format("{}.{}", written.name, name), text_of(value), written.place});
    }
  }
  return parts;
}

std::vector<Written> words_of_fsdp(const Written& written) {
  std::vector<Written> parts;
  std::string words = value_of(written);
  std::erase_if(words, [](char c) { return c == '[' || c == ']'; });  // a list as YAML and JSON write it
  try {
    for (const std::string& word : expanded_items(words)) {
      parts.push_back({written.section, "fsdp", word, written.place});
    }
  } catch (const std::invalid_argument&) {
    return {written};
  }
  return parts;
}

/// The key of its own that a setting of another trainer gives; nothing where it gives none, or cannot be obeyed.
std::optional<std::string> key_of(const Written& written) {
  try {
    const std::optional<Setting> setting = setting_of(written);
    if (setting) return setting->key->full_name();
  } catch (const std::exception&) {  // refused where it is applied
  }
  return std::nullopt;
}

/// The stage that a setting stands for where nothing else says it; empty: it stands for none.
std::string stage_of(const Written& written) {
  const std::string value = value_of(written);
  const bool is_true = truth_of(value) == true;
  if (written.name == "multi_gpu" && is_true) return "0";
  if (written.name == "use_fsdp" && is_true) return "3";
  if (written.name == "use_deepspeed" && is_true) return "2";
  if (written.name == "distributed_type" && (value == "MULTI_GPU" || value == "MULTI_CPU")) return "0";
  return "";
}

/// Whether a foreign name that is written like this is obeyed by setting nothing.
bool sets_nothing(const ForeignName* foreign, const Written& written) {
  try {
    return foreign != nullptr && !obey(*foreign, {written.name, written.value}, "sft", written.place);
  } catch (const std::exception&) {
    return false;
  }
}

/// Whether other lines say what becomes of the setting, or its neighbours do what it says.
bool is_told_elsewhere(const Written& written) {
  constexpr std::array<std::string_view, 7> names{"fsdp",      "use_fsdp", "use_deepspeed", "use_parallelism_config",
                                                  "multi_gpu", "dtype",    "torch_dtype"};
  return std::ranges::find(names, written.name) != names.end() || !keys_meant_by(written.name).empty();
}

/// The name that the setting gives without any effect; null: it has one, switches off what there is not, or cannot be
/// obeyed.
const ForeignName* without_effect(const Written& written) {
  const std::string value = value_of(written);
  const bool is_off = truth_of(value) == false;
  if (is_told_elsewhere(written) || (is_none(value) && !is_off)) return nullptr;
  Written switched_on = written;
  switched_on.value = "true";
  for (const ForeignName* const foreign :
       {find_foreign_name_of_prepare(written.name), find_foreign_name(written.name)}) {
    if (sets_nothing(foreign, written) && (!is_off || sets_nothing(foreign, switched_on))) return foreign;
  }
  return nullptr;
}

}  // namespace

std::vector<Written> parts_of(const Written& written) {
  const std::string value = value_of(written);
  if (written.name == "fsdp" && !is_none(value) && !truth_of(value)) return words_of_fsdp(written);
  if (written.name == "mixed_precision" && (value == "fp8" || value == "FP8")) {
    return {{written.section, written.name, "bf16", written.place}, {"train", "fp8", "tensorwise", written.place}};
  }
  if (!value.starts_with('{')) return {written};
  for (const auto& [name, prefix] : blocks) {
    if (written.name == name) return entries_of(written, std::string(prefix), /*is_named_outside=*/true);
  }
  if (std::ranges::find(own_names, written.name) == own_names.end()) return {written};
  return entries_of(written, "", /*is_named_outside=*/false);
}

void check_rivals(const std::vector<Written>& source) {
  const auto find = [&](std::string_view name) { return std::ranges::find(source, name, &Written::name); };
  const auto is_true = [&](std::vector<Written>::const_iterator written) {
    return written != source.end() && truth_of(value_of(*written)) == true;
  };
  const auto refuse = [](const Written& one, const Written& other, const char* why) {
    throw_config_error(fmt::format("`{} = {}` {} and `{} = {}` {} are given", one.full_name(), one.value, one.place,
                                   other.full_name(), other.value, other.place),
                       why, "leave one of the two out");
  };
  const auto fsdp = find("use_fsdp"), deepspeed = find("use_deepspeed");
  if (is_true(fsdp) && is_true(deepspeed)) refuse(*fsdp, *deepspeed, "they shard a model in two ways");
  const auto of_model = find("dtype"), old = find("torch_dtype");
  if (of_model == source.end() || old == source.end()) return;
  const auto dtype_of = [](const Written& written) {
    const std::string value = value_of(written);
    if (value == "fp32" || value == "float") return std::string("float32");
    return value == "bf16" ? std::string("bfloat16") : value;
  };
  if (dtype_of(*of_model) != dtype_of(*old) && !is_null(value_of(*of_model)) && !is_null(value_of(*old))) {
    refuse(*of_model, *old, "both are the dtype of the weights");
  }
}

void drop_alias(std::vector<Written>& source) {
  const auto find = [&](std::string_view name) { return std::ranges::find(source, name, &Written::name); };
  const auto is_off = [&](std::vector<Written>::iterator written) {
    return written != source.end() && is_none(value_of(*written));
  };
  const auto is_true = [&](std::vector<Written>::iterator written) {
    return written != source.end() && truth_of(value_of(*written)) == true;
  };
  const auto old = find("gradient_checkpointing"), present = find("activation_checkpointing");
  if (is_true(old) && is_off(present)) {
    source.erase(present);
  } else if (is_true(present) && is_off(old)) {
    source.erase(old);
  }
}

void add_stage_of_launcher(std::vector<Written>& source) {
  const auto says_stage = [](const Written& written) { return key_of(written) == "parallel.zero_stage"; };
  const auto found = std::ranges::find_if(source, [](const Written& written) { return !stage_of(written).empty(); });
  if (found == source.end() || std::ranges::any_of(source, says_stage)) return;
  source.push_back({"parallel", "zero_stage", stage_of(*found), found->place});
}

std::vector<std::string> notes_on(const std::vector<PlacedOption>& settings) {
  std::vector<std::pair<std::string, std::string>> names_by_reason;
  const auto add = [&](const std::string& why, const std::string& name) {
    auto found = std::ranges::find(names_by_reason, why, &std::pair<std::string, std::string>::first);
    if (found == names_by_reason.end()) found = names_by_reason.insert(found, {why, ""});
    std::string& names = found->second;
    const std::string quoted = fmt::format("`{}`", name);
    if (names.find(quoted) == std::string::npos) names += (names.empty() ? "" : ", ") + quoted;
  };
  for (const PlacedOption& placed : settings) {
    try {
      for (const Written& part : parts_of(written_option(placed.option))) {
        const ForeignName* const foreign = without_effect(part);
        if (foreign != nullptr) add(foreign->why, part.name);
      }
    } catch (const std::exception&) {  // refused where it is applied
    }
  }
  std::vector<std::string> notes;
  for (const auto& [why, names] : names_by_reason) notes.push_back(fmt::format("{} without effect: {}", names, why));
  return notes;
}

}  // namespace sft::config
