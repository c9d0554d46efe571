// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/model_config.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "config_fields.hpp"
#include "families.hpp"
#include "model_config_parts.hpp"
#include "quantization.hpp"
#include "sft/core/error.hpp"
#include "weight_files.hpp"

namespace sft::hub {

namespace {

/// Fields that say nothing about the math of a decoder: names of classes, tokens and types, what generation and tasks
/// take for defaults, and what tools leave behind.
const std::vector<std::string>& fields_without_math() {
  static const std::vector<std::string> names{"_attn_implementation",
                                              "_attn_implementation_autoset",
                                              "_commit_hash",
                                              "_from_model_config",
                                              "_name_or_path",
                                              "attn_implementation",
                                              "begin_suppress_tokens",
                                              "bos_token_id",
                                              "cache_implementation",
                                              "chunk_size_feed_forward",
                                              "decoder_start_token_id",
                                              "diversity_penalty",
                                              "do_sample",
                                              "dtype",
                                              "early_stopping",
                                              "eos_token_id",
                                              "exponential_decay_length_penalty",
                                              "finetuning_task",
                                              "forced_bos_token_id",
                                              "forced_eos_token_id",
                                              "id2label",
                                              "initializer_range",
                                              "is_llama_config",
                                              "label2id",
                                              "length_penalty",
                                              "license",
                                              "max_length",
                                              "min_length",
                                              "model_max_length",
                                              "model_type",
                                              "name_or_path",
                                              "no_repeat_ngram_size",
                                              "num_beam_groups",
                                              "num_beams",
                                              "num_labels",
                                              "num_return_sequences",
                                              "output_attentions",
                                              "output_hidden_states",
                                              "output_scores",
                                              "prefix",
                                              "pretraining_tp",
                                              "problem_type",
                                              "remove_invalid_values",
                                              "repetition_penalty",
                                              "return_dict",
                                              "return_dict_in_generate",
                                              "sep_token_id",
                                              "suppress_tokens",
                                              "task_specific_params",
                                              "temperature",
                                              "tf_legacy_loss",
                                              "tokenizer_class",
                                              "top_k",
                                              "top_p",
                                              "torch_dtype",
                                              "torchscript",
                                              "transformers.js_config",
                                              "transformers_version",
                                              "typical_p",
                                              "unsloth_fixed",
                                              "unsloth_version",
                                              "use_bfloat16",
                                              "use_cache"};
  return names;
}

const FamilyDefaults& family_of(ConfigFields& fields) {
  const std::vector<std::string> architectures = fields.texts("architectures");
  const std::string model_type = fields.text("model_type", "");
  std::string known;
  for (const FamilyDefaults& family : families) {
    if (std::ranges::find(architectures, family.architecture) != architectures.end()) return family;
    if (architectures.empty() && model_type == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  }
  fields.refuse(architectures.empty() ? "model_type" : "architectures", "sft trains " + known, other_model);
}

/// Refuses weights in a form that is not read. What is quantized is trained with as the numbers that it stands for.
void check_quantization(ConfigFields& fields, Family family) {
  if (read_quantization(fields).form != StoredForm::mxfp4 || family == Family::gpt_oss) return;
  fields.refuse("quantization_config", "experts of gpt-oss alone are read in MXFP4",
                "give the model before it was quantized");
}

/// What the gate of the MLP goes through: sets model.hidden_act.
void read_activation(ConfigFields& fields, Family family, config::Model& model) {
  const std::string older = fields.text("hidden_act", "silu");
  if (is_gemma(family)) {
    if (fields.text("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh") {
      fields.refuse("hidden_activation", "the gate of a Gemma goes through gelu_pytorch_tanh", other_model);
    }
    model.hidden_act = config::Activation::gelu_pytorch_tanh;
  } else if (older != "silu" && older != "swish") {
    fields.refuse("hidden_act", "the MLP is SwiGLU, with silu", other_model);
  }
}

void refuse_what_is_not_there(ConfigFields& fields) {
  for (const char* name : {"attention_dropout", "resid_pdrop", "embd_pdrop"}) {
    if (fields.number(name, 0.0) != 0.0) {
      fields.refuse(name, "there is no dropout, and training with it would be another training",
                    "set it to 0 in config.json");
    }
  }
  if (!fields.truth("is_causal", true)) fields.refuse("is_causal", "attention is causal", other_model);
}

void read_sizes(ConfigFields& fields, const FamilyDefaults& family, config::Model& model) {
  model.hidden_size = fields.required_integer("hidden_size");
  model.num_hidden_layers = fields.required_integer("num_hidden_layers");
  const auto required = [&](const char* name, std::int64_t fallback) {
    return fallback == 0 ? fields.required_integer(name) : fields.integer(name, fallback);
  };
  model.num_attention_heads = required("num_attention_heads", family.num_attention_heads);
  model.intermediate_size = fields.required_integer("intermediate_size");
  model.vocab_size = required("vocab_size", family.vocab_size);
  if (model.num_attention_heads == 0) {
    fields.refuse("num_attention_heads", "there is no model without heads", "correct config.json");
  }
  // Null means the head count of the queries; a field that is not there means the family's default.
  const std::int64_t default_kv_heads = fields.has("num_key_value_heads") ? 0 : family.num_key_value_heads;
  model.num_key_value_heads = fields.integer("num_key_value_heads", default_kv_heads);
  if (model.num_key_value_heads == 0) model.num_key_value_heads = model.num_attention_heads;
  const std::int64_t default_head_dim = fields.has("head_dim") ? 0 : family.head_dim;
  model.head_dim = fields.integer("head_dim", default_head_dim);
  if (model.head_dim == 0) model.head_dim = model.hidden_size / model.num_attention_heads;
  model.max_position_embeddings = fields.integer("max_position_embeddings", family.max_position_embeddings);
  model.tie_word_embeddings = fields.truth("tie_word_embeddings", family.tie_word_embeddings);
}

/// The token whose embedding torch.nn.Embedding does not train as an input. It counts from the end where it is
/// negative. One beyond the vocabulary, which transformers does not load, is none.
void read_padding(ConfigFields& fields, const FamilyDefaults& family, config::Model& model) {
  const auto value = fields.value("pad_token_id");
  if (!value.is_null() && !value.is_number_integer()) fields.refuse_kind("pad_token_id", "a whole number");
  if (fields.has("pad_token_id") && value.is_null()) return;
  auto id = value.is_null() ? family.pad_token_id : value.get<std::int64_t>();
  if (!value.is_null() && id < 0) id += model.vocab_size;
  if (id >= 0 && id < model.vocab_size) model.pad_token_id = id;
}

void read_biases(ConfigFields& fields, Family family, config::Model& model) {
  switch (family) {
    case Family::llama:
    case Family::smollm3:
    case Family::granite:
      model.attention_bias = fields.truth("attention_bias", false);
      model.attention_output_bias = model.attention_bias;
      model.mlp_bias = fields.truth("mlp_bias", false);
      break;
    case Family::mistral:
    case Family::phi3:
    case Family::ministral3:
    case Family::mixtral:
      break;
    case Family::glm4:
      model.attention_bias = fields.truth("attention_bias", true);
      break;
    case Family::qwen2:
      model.attention_bias = true;
      break;
    case Family::olmo2:
    case Family::olmo3:
    case Family::gemma2:
    case Family::gemma3:
      model.attention_bias = fields.truth("attention_bias", false);
      model.attention_output_bias = model.attention_bias;
      break;
    case Family::gpt_oss:
      model.attention_bias = fields.truth("attention_bias", true);
      model.attention_output_bias = model.attention_bias;
      model.attention_sinks = true;
      break;
    case Family::glm4_moe:
      model.attention_bias = fields.truth("attention_bias", false);
      model.qk_norm = fields.truth("use_qk_norm", false);
      break;
    case Family::qwen3:
    case Family::qwen3_moe:
      model.attention_bias = fields.truth("attention_bias", false);
      model.attention_output_bias = model.attention_bias;
      model.qk_norm = true;
      break;
  }
}

/// Which layers are rotated: a list, or all but every so many-th.
void read_rotated_layers(ConfigFields& fields, config::Model& model) {
  constexpr std::int64_t default_interval = 4;
  const std::int64_t interval = fields.integer("no_rope_layer_interval", default_interval);
  model.no_rope_layers = fields.integers("no_rope_layers");
  if (!model.no_rope_layers.empty()) {
    // The list may be longer than the model.
    if (std::cmp_less(model.no_rope_layers.size(), model.num_hidden_layers)) {
      fields.refuse("no_rope_layers", fmt::format("there are {} layers", model.num_hidden_layers),
                    "correct the file, or download it again");
    }
    model.no_rope_layers.resize(model.num_hidden_layers);
    for (int& item : model.no_rope_layers) item = item != 0 ? 1 : 0;
    return;
  }
  if (interval == 0) fields.refuse("no_rope_layer_interval", "it counts layers", "correct config.json");
  for (std::int64_t layer = 1; layer <= model.num_hidden_layers; ++layer) {
    model.no_rope_layers.push_back(layer % interval != 0 ? 1 : 0);
  }
}

/// What Gemma 2 and 3 have beside others. Gemma 3 of transformers has the field of a cap on scores and does not read
/// it, nor the one of a cap on logits where it is the tower of a larger model.
void read_gemma(ConfigFields& fields, Family family, bool is_tower, config::Model& model) {
  const bool is_second = family == Family::gemma2;
  const auto read_cap = [&](const char* name, double default_of_second) {
    return fields.has(name) ? fields.number(name, 0.0) : is_second ? default_of_second : 0.0;
  };
  const double cap_of_scores = read_cap("attn_logit_softcapping", 50.0),
               cap_of_logits = read_cap("final_logit_softcapping", 30.0);
  if (is_second) model.attn_logit_softcapping = cap_of_scores;
  if (!is_tower) model.final_logit_softcapping = cap_of_logits;
  if (fields.truth("use_bidirectional_attention", false)) {
    fields.refuse("use_bidirectional_attention", "attention is causal", other_model);
  }
  const double scalar = fields.number("query_pre_attn_scalar", 256.0);
  if (!(scalar > 0)) fields.refuse("query_pre_attn_scalar", "scores are divided by its root", "correct config.json");
  model.attention_multiplier = 1.0 / std::sqrt(scalar);
  model.embedding_multiplier = std::sqrt(static_cast<double>(model.hidden_size));
  model.rounds_embedding_multiplier = model.zero_centered_norms = true;
  model.block_norms = config::BlockNorms::gemma2;
  model.qk_norm = !is_second;
}

void read_multipliers(ConfigFields& fields, config::Model& model) {
  const auto read = [&](const char* name) {
    const double value = fields.number(name, 1.0);
    if (!(value > 0)) fields.refuse(name, "it multiplies or divides by nothing", "correct config.json");
    return value;
  };
  model.embedding_multiplier = read("embedding_multiplier");
  model.attention_multiplier = read("attention_multiplier");
  model.residual_multiplier = read("residual_multiplier");
  model.logits_scaling = read("logits_scaling");
}

/// Reads what a model of several towers says of the text tower: whether its head is tied, which it is by default.
bool read_around_tower(const nlohmann::json& whole, const std::string& source, Family family) {
  ConfigFields fields(whole, source);
  check_quantization(fields, family);
  return fields.truth("tie_word_embeddings", true);
}

}  // namespace

ModelConfig parse_model_config(const std::string& text, const std::string& source) {
  const nlohmann::json whole = parse_json_object(text, source);
  const nlohmann::json& object = decoder_config(whole);
  ConfigFields fields(object, source);
  const FamilyDefaults& family = family_of(fields);
  check_quantization(fields, family.family);
  refuse_what_is_not_there(fields);
  ModelConfig result;
  config::Model& model = result.model;
  read_activation(fields, family.family, model);
  read_sizes(fields, family, model);
  read_padding(fields, family, model);
  read_biases(fields, family.family, model);
  if (family.family == Family::smollm3) read_rotated_layers(fields, model);
  read_windows(fields, family, model);
  model.rms_norm_eps = fields.number("rms_norm_eps", family.rms_norm_eps);
  if (is_tower_config(whole)) model.tie_word_embeddings = read_around_tower(whole, source, family.family);
  model.initializer_range = fields.number("initializer_range", model.initializer_range);
  read_rope(fields, family, model, result.warnings);
  if (family.family == Family::glm4) model.block_norms = config::BlockNorms::glm4;
  if (is_gemma(family.family)) read_gemma(fields, family.family, is_tower_config(whole), model);
  if (family.family == Family::olmo2 || family.family == Family::olmo3) {
    model.block_norms = config::BlockNorms::olmo2;
    model.qk_norm = model.qk_norm_all_heads = true;
  }
  if (family.family == Family::granite) read_multipliers(fields, model);
  const bool has_experts =
      family.family == Family::qwen3_moe || family.family == Family::mixtral || family.family == Family::gpt_oss;
  if (has_experts) read_experts(fields, family.family, model);
  if (family.family == Family::glm4_moe) read_experts_of_glm(fields, model);

  std::string unread;
  for (const std::string& name : fields.unread()) {
    if (std::ranges::find(fields_without_math(), name) != fields_without_math().end()) continue;
    unread += (unread.empty() ? "" : ", ") + name;
  }
  if (!unread.empty()) {
    result.warnings.push_back(
        fmt::format("{} has fields that {} does not read: {}; if they stand for other math, this is another model",
                    source, family.architecture, unread));
  }
  return result;
}

ModelConfig read_model_config(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  nlohmann::json object = read_json_object(path);
  const bool says_nothing = !object.contains("tie_word_embeddings") || object["tie_word_embeddings"].is_null();
  if (is_tower_config(object) && says_nothing && holds_tower_head(folder)) object["tie_word_embeddings"] = false;
  return parse_model_config(object.dump(), path);
}

}  // namespace sft::hub
