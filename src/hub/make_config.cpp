// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "config_fields.hpp"
#include "families.hpp"
#include "sft/config/rope_scaling.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/model_config.hpp"

namespace sft::hub {

namespace {

using nlohmann::ordered_json;

/// The family that has exactly the model's parts; none where no family does.
std::optional<Family> family_with_parts(const config::Model& model) {
  const bool has_same_biases = model.attention_bias == model.attention_output_bias;
  if (model.qk_norm) {
    return has_same_biases && !model.mlp_bias ? std::optional(Family::qwen3) : std::nullopt;
  }
  if (has_same_biases) return Family::llama;
  const bool is_qwen2 = model.attention_bias && !model.mlp_bias;
  return is_qwen2 ? std::optional(Family::qwen2) : std::nullopt;
}

const FamilyDefaults& require_family(const config::Model& model) {
  const std::optional<Family> family = family_with_parts(model);
  if (!family) {
    throw_data_error("the model cannot be written in hub format",
                     "no family of Llama, Qwen2 and Qwen3 has its attention_bias, attention_output_bias, mlp_bias and "
                     "qk_norm together",
                     "train a model with the parts of one of them");
  }
  for (const FamilyDefaults& defaults : families) {
    if (defaults.family == *family) return defaults;
  }
  throw std::logic_error("a family has its defaults");
}

/// The length that transformers takes the kind of rotary scaling to be made for, where the model does not know it.
std::int64_t max_position_embeddings_of(const config::Model& model, std::int64_t max_length) {
  const config::RopeScaling& scaling = model.rope_scaling;
  if (scaling.rope_type == config::RopeType::dynamic) return scaling.original_max_position_embeddings;
  if (model.max_position_embeddings > 0) return model.max_position_embeddings;
  if (scaling.rope_type != config::RopeType::yarn) return max_length;
  return std::llround(scaling.factor * static_cast<double>(scaling.original_max_position_embeddings));
}

/// The config.json of a model that began with random weights, in the form that transformers 4 and 5 read.
ordered_json describe(const config::Model& model, std::int64_t max_length) {
  const FamilyDefaults& family = require_family(model);
  ordered_json object = {{"architectures", {family.architecture}},
                         {"model_type", family.model_type},
                         {"hidden_size", model.hidden_size},
                         {"intermediate_size", model.intermediate_size},
                         {"num_hidden_layers", model.num_hidden_layers},
                         {"num_attention_heads", model.num_attention_heads},
                         {"num_key_value_heads", model.num_key_value_heads},
                         {"head_dim", model.head_dim},
                         {"hidden_act", "silu"},
                         {"vocab_size", model.vocab_size},
                         {"max_position_embeddings", max_position_embeddings_of(model, max_length)},
                         {"rms_norm_eps", model.rms_norm_eps},
                         {"rope_theta", model.rope_theta},
                         {"rope_scaling", nullptr},
                         {"tie_word_embeddings", model.tie_word_embeddings},
                         {"attention_dropout", 0.0},
                         {"initializer_range", model.initializer_range},
                         {"use_cache", true},
                         {"bos_token_id", nullptr},
                         {"eos_token_id", nullptr},
                         {"pad_token_id", nullptr}};
  if (const std::string scaling = config::to_json(model.rope_scaling); !scaling.empty()) {
    object["rope_scaling"] = ordered_json::parse(scaling);
  }
  if (family.family != Family::qwen2) object["attention_bias"] = model.attention_bias;
  if (family.family == Family::llama) object["mlp_bias"] = model.mlp_bias;
  if (family.family != Family::llama) object["use_sliding_window"] = false;
  return object;
}

bool holds(const ordered_json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && !field->is_null() && !(field->is_object() && field->empty());
}

constexpr const char* original_length = "original_max_position_embeddings";

/// transformers 5 saves the rotary embedding as rope_parameters alone, where version 4, vLLM and llama.cpp do not look:
/// they would take default frequencies without a word. Writes what it says as rope_theta and rope_scaling as well.
void add_older_rope(ordered_json& object, const config::Model& model) {
  if (!holds(object, "rope_parameters")) return;
  const ordered_json parameters = object["rope_parameters"];
  const bool says_theta = parameters.value("rope_theta", ordered_json()) == model.rope_theta;
  object["rope_theta"] = says_theta ? parameters["rope_theta"] : ordered_json(model.rope_theta);
  if (holds(object, "rope_scaling")) return;  // which counts in version 5 as well
  object["rope_scaling"] = nullptr;
  const std::string understood = config::to_json(model.rope_scaling);
  if (understood.empty()) return;
  const ordered_json complete = ordered_json::parse(understood);
  ordered_json scaling = {{"rope_type", complete["rope_type"]}, {"factor", complete["factor"]}};
  for (const auto& [name, value] : parameters.items()) {
    const bool is_outside = name == "rope_theta" || name == "partial_rotary_factor" || name == "type";
    if (!is_outside && !value.is_null()) scaling[name] = value;
  }
  if (model.rope_scaling.rope_type != config::RopeType::dynamic && complete.contains(original_length)) {
    scaling[original_length] = complete[original_length];
  }
  object["rope_scaling"] = std::move(scaling);
}

/// Says under `name` alone how weights are stored.
void set_dtype(ordered_json& object, const char* name, WeightType type) {
  object.erase("torch_dtype");
  object.erase("dtype");
  object[name] = name_of(type);
}

}  // namespace

std::string make_config_json(const config::Model& model, WeightType type, const std::string& original,
                             std::int64_t max_length) {
  ordered_json object = original.empty() ? describe(model, max_length) : ordered_json::parse(original);
  object.erase("_name_or_path");
  // Versions of transformers before 4.56 know torch_dtype alone, and all later ones read it.
  const char* const dtype_name = object.contains("dtype") ? "dtype" : "torch_dtype";
  const bool is_tower = object.contains("text_config") && object["text_config"].is_object();
  if (!original.empty()) {
    ordered_json& decoder = is_tower ? object["text_config"] : object;
    add_older_rope(decoder, parse_model_config(original, "config.json").model);
  }
  if (is_tower) {
    ordered_json& decoder = object["text_config"];
    if (decoder.contains("dtype") || decoder.contains("torch_dtype")) set_dtype(decoder, dtype_name, type);
  }
  set_dtype(object, dtype_name, type);
  return object.dump(2) + "\n";
}

}  // namespace sft::hub
