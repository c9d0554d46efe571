// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config_fields.hpp"
#include "families/family.hpp"
#include "families/shared/part.hpp"
#include "families/shared/writing.hpp"
#include "sft/config/rope_scaling.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/model_config.hpp"

namespace sft::hub {

namespace {

using nlohmann::ordered_json;

const Family& require_family(const config::Model& model) {
  const std::uint64_t parts = parts_of(model);
  const auto fits = [&](const Choice& choice) {
    const bool has_required = (parts & choice.required) == choice.required;
    return has_required && (parts & ~(choice.required | choice.possible)) == 0;
  };
  for (const Family& family : all_families()) {
    if (std::ranges::any_of(family.choices, fits)) return family;
  }
  throw_data_error("the model cannot be written in hub format",
                   "no family that it is read from has its biases, norms, rotation and multipliers together",
                   "train a model with the parts of one of them");
}

/// The length that transformers takes the kind of rotary scaling to be made for, where the model does not know it.
std::int64_t max_position_embeddings_of(const config::Model& model, std::int64_t max_length) {
  const config::RopeScaling& scaling = model.rope_scaling;
  if (scaling.rope_type == config::RopeType::dynamic) return scaling.original_max_position_embeddings;
  if (model.max_position_embeddings > 0) return model.max_position_embeddings;
  if (scaling.rope_type != config::RopeType::yarn && scaling.rope_type != config::RopeType::longrope) return max_length;
  return std::llround(scaling.factor * static_cast<double>(scaling.original_max_position_embeddings));
}

/// The config.json of a model that began with random weights, in the form that transformers 4 and 5 read.
ordered_json describe(const config::Model& model, std::int64_t max_length) {
  const Family& family = require_family(model);
  ordered_json object = {
      {"architectures", {family.architecture}},
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
      {"pad_token_id", model.pad_token_id < 0 ? ordered_json(nullptr) : ordered_json(model.pad_token_id)}};
  if (const std::string scaling = config::to_json(model.rope_scaling); !scaling.empty()) {
    object["rope_scaling"] = ordered_json::parse(scaling);
  }
  const Writing writing{object, model, family};
  write_older_rotation(writing);
  family.write(writing);
  return object;
}

/// Adds to the decoder's part of a config.json what its family has for transformers 4.
void add_older_fields(ordered_json& decoder, const std::string& original) {
  const config::Model model = parse_model_config(original, "config.json").model;
  const nlohmann::json object = decoder;
  ConfigFields fields(object, "config.json");
  const Family& family = family_of(fields);
  family.add_older_fields({decoder, model, family});
}

/// Says under `name` alone how weights are stored.
void set_dtype(ordered_json& object, const char* name, WeightType type) {
  object.erase("torch_dtype");
  object.erase("dtype");
  object[name] = name_of(type);
}

/// Says that head and embeddings are two matrices, also where families tie them by default.
void untie(ordered_json& object, bool is_tower) {
  constexpr const char* name = "tie_word_embeddings";
  object[name] = false;
  if (is_tower && object["text_config"].contains(name)) object["text_config"][name] = false;
}

}  // namespace

std::string make_config_json(const config::Model& model, WeightType type, const std::string& original,
                             std::int64_t max_length) {
  ordered_json object = original.empty() ? describe(model, max_length) : ordered_json::parse(original);
  object.erase("_name_or_path");
  object.erase("quantization_config");  // what is written is not quantized
  // Versions of transformers before 4.56 know torch_dtype alone, and all later ones read it.
  const char* const dtype_name = object.contains("dtype") ? "dtype" : "torch_dtype";
  const bool is_tower = object.contains("text_config") && object["text_config"].is_object();
  if (!original.empty()) add_older_fields(is_tower ? object["text_config"] : object, original);
  if (is_tower) {
    ordered_json& decoder = object["text_config"];
    if (decoder.contains("dtype") || decoder.contains("torch_dtype")) set_dtype(decoder, dtype_name, type);
  }
  set_dtype(object, dtype_name, type);
  if (!original.empty() && !model.tie_word_embeddings &&
      parse_model_config(original, "config.json").model.tie_word_embeddings) {
    untie(object, is_tower);
  }
  return object.dump(2) + "\n";
}

}  // namespace sft::hub
