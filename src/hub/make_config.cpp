// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <optional>

#include "families.hpp"
#include "json_file.hpp"
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
                         {"max_position_embeddings", model.max_position_embeddings},
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
  if (model.max_position_embeddings == 0) object["max_position_embeddings"] = max_length;
  if (const std::string scaling = config::to_json(model.rope_scaling); !scaling.empty()) {
    object["rope_scaling"] = ordered_json::parse(scaling);
  }
  if (family.family != Family::qwen2) object["attention_bias"] = model.attention_bias;
  if (family.family == Family::llama) object["mlp_bias"] = model.mlp_bias;
  if (family.family != Family::llama) object["use_sliding_window"] = false;
  return object;
}

}  // namespace

std::string make_config_json(const config::Model& model, WeightType type, const std::string& original,
                             std::int64_t max_length) {
  ordered_json object = original.empty() ? describe(model, max_length) : ordered_json::parse(original);
  // Versions of transformers before 4.56 know torch_dtype alone, and all later ones read it.
  const bool has_new_name = object.contains("dtype");
  object.erase("torch_dtype");
  object.erase("dtype");
  object.erase("_name_or_path");
  object[has_new_name ? "dtype" : "torch_dtype"] = name_of(type);
  return object.dump(2) + "\n";
}

}  // namespace sft::hub
