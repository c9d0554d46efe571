// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/model_config.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "config_fields.hpp"
#include "families.hpp"
#include "quantization.hpp"
#include "sft/core/error.hpp"
#include "weight_files.hpp"

namespace sft::hub {

namespace {

constexpr const char* other_model = "use another model";

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

bool is_gemma(Family family) { return family == Family::gemma2 || family == Family::gemma3; }

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

[[noreturn]] void refuse_unused_window(const ConfigFields& fields) {
  fields.refuse("layer_types", "sliding_attention needs use_sliding_window and sliding_window", "correct config.json");
}

/// Windows on the layers that are not rotated, or on those of a list.
void read_windows_of_smollm3(ConfigFields& fields, std::vector<std::string> layer_types, config::Model& model) {
  const bool has_list = !layer_types.empty();
  const std::int64_t window = fields.truth("use_sliding_window", false) ? fields.integer("sliding_window", 0) : 0;
  for (std::size_t layer = 0; !has_list && std::cmp_less(layer, model.num_hidden_layers); ++layer) {
    layer_types.emplace_back(window > 0 && !model.rotates(layer) ? "sliding_attention" : "full_attention");
  }
  if (std::ranges::find(layer_types, "sliding_attention") == layer_types.end()) return;
  if (window == 0) refuse_unused_window(fields);
  model.sliding_window = window;
  model.layer_types = std::move(layer_types);
}

/// Reads the window of families whose layers slide but for every so many-th.
void read_alternating_windows(ConfigFields& fields, Family family, std::vector<std::string> layer_types,
                              config::Model& model) {
  std::int64_t every = family == Family::gemma2 || family == Family::gpt_oss ? 2 : family == Family::olmo3 ? 4 : 6;
  if (family == Family::gemma3) {
    every = fields.integer("sliding_window_pattern", every);
    static_cast<void>(fields.value("_sliding_window_pattern"));  // the same, written and not read
    if (every == 0) fields.refuse("sliding_window_pattern", "it counts layers", "correct config.json");
  }
  for (std::int64_t layer = layer_types.empty() ? 1 : model.num_hidden_layers + 1; layer <= model.num_hidden_layers;
       ++layer) {
    layer_types.emplace_back(layer % every != 0 ? "sliding_attention" : "full_attention");
  }
  const std::int64_t default_window = family == Family::gpt_oss ? 128 : 4096;
  const std::int64_t window = fields.has("sliding_window") ? fields.integer("sliding_window", 0) : default_window;
  if (std::ranges::find(layer_types, "sliding_attention") == layer_types.end()) return;
  model.sliding_window = window;
  if (model.sliding_window == 0) fields.refuse("sliding_window", "some layers slide", "correct config.json");
  model.layer_types = std::move(layer_types);
}

/// Reads which layers have sliding-window attention: sets model.sliding_window and layer_types.
void read_windows(ConfigFields& fields, const FamilyDefaults& family, config::Model& model) {
  const std::int64_t num_layers = model.num_hidden_layers;
  std::vector<std::string> layer_types = fields.texts("layer_types");
  bool has_sliding = false;
  for (const std::string& type : layer_types) {
    if (type != "full_attention" && type != "sliding_attention") {
      fields.refuse("layer_types", "layers have full_attention or sliding_attention, not " + type, other_model);
    }
    has_sliding = has_sliding || type == "sliding_attention";
  }
  if (!layer_types.empty() && std::cmp_not_equal(layer_types.size(), num_layers)) {
    fields.refuse("layer_types", fmt::format("it has {} items for {} layers", layer_types.size(), num_layers),
                  "correct the file, or download it again");
  }
  if (is_gemma(family.family) || family.family == Family::olmo3 || family.family == Family::gpt_oss) {
    return read_alternating_windows(fields, family.family, std::move(layer_types), model);
  }
  constexpr std::int64_t default_window = 4096;
  const bool slides_everywhere = family.family == Family::mistral || family.family == Family::phi3 ||
                                 family.family == Family::ministral3 || family.family == Family::mixtral;
  const bool is_qwen = family.family == Family::qwen2 || family.family == Family::qwen3;
  if (family.family == Family::smollm3) return read_windows_of_smollm3(fields, std::move(layer_types), model);
  if (!is_qwen) {
    if (has_sliding) {
      fields.refuse("layer_types", fmt::format("{} has one kind of layer here", family.architecture), other_model);
    }
    if (family.family == Family::qwen3_moe) {
      static_cast<void>(fields.value("max_window_layers"));  // all layers slide, whatever it says
      const std::int64_t window = fields.has("sliding_window") ? fields.integer("sliding_window", 0) : default_window;
      if (fields.truth("use_sliding_window", false)) model.sliding_window = window;
      return;
    }
    if (!slides_everywhere) return;
    const bool has_default = family.family == Family::mistral && !fields.has("sliding_window");
    model.sliding_window = has_default ? default_window : fields.integer("sliding_window", 0);
    return;
  }
  const bool is_used = fields.truth("use_sliding_window", false);
  const std::int64_t window = fields.has("sliding_window") ? fields.integer("sliding_window", 0) : default_window;
  const std::int64_t num_full_layers = fields.integer("max_window_layers", 28);
  if (has_sliding && (!is_used || window == 0)) refuse_unused_window(fields);
  if (layer_types.empty() && is_used && window > 0) {
    for (std::int64_t layer = 0; layer < num_layers; ++layer) {
      layer_types.emplace_back(layer >= num_full_layers ? "sliding_attention" : "full_attention");
    }
  }
  if (std::ranges::find(layer_types, "sliding_attention") == layer_types.end()) return;
  model.sliding_window = window;
  model.layer_types = std::move(layer_types);
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

/// Layers with experts: all but those of `mlp_only_layers`, and of these every decoder_sparse_step-th.
void read_dense_layers(ConfigFields& fields, config::Model& model) {
  const std::int64_t step = fields.integer("decoder_sparse_step", 1);
  if (step == 0) fields.refuse("decoder_sparse_step", "it counts layers", "correct config.json");
  const std::vector<int> dense = fields.integers("mlp_only_layers");
  for (int layer = 0; layer < model.num_hidden_layers; ++layer) {
    const bool has_experts = (layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end();
    if (!has_experts) model.mlp_only_layers.push_back(layer);
  }
}

void read_experts(ConfigFields& fields, Family family, config::Model& model) {
  constexpr double default_coefficient = 0.001;
  const std::int64_t default_experts = family == Family::mixtral ? 8 : 128;
  const std::int64_t default_choices = family == Family::mixtral ? 2 : family == Family::gpt_oss ? 4 : 8;
  model.num_experts = fields.integer("num_experts", fields.integer("num_local_experts", default_experts));
  model.num_experts_per_tok = fields.integer("num_experts_per_tok", default_choices);
  static_cast<void>(fields.value("output_router_logits"));  // router_aux_loss_coef decides, as in TRL
  model.router_aux_loss_coef = fields.number("router_aux_loss_coef", default_coefficient);
  if (family == Family::mixtral) {
    model.moe_intermediate_size = model.intermediate_size;
    model.norm_topk_prob = true;
    if (fields.number("router_jitter_noise", 0.0) != 0.0) {
      fields.refuse("router_jitter_noise", "there is no noise on what routers read", "set it to 0 in config.json");
    }
    return;
  }
  if (family == Family::gpt_oss) {
    model.moe_intermediate_size = model.intermediate_size;
    model.norm_topk_prob = true;  // a softmax of the chosen experts' logits
    model.expert_form = config::ExpertForm::gpt_oss;
    model.swiglu_alpha = fields.number("swiglu_alpha", model.swiglu_alpha);
    model.swiglu_limit = fields.number("swiglu_limit", model.swiglu_limit);
    // What stands elsewhere too.
    for (const char* name : {"experts_per_token", "initial_context_length"}) static_cast<void>(fields.value(name));
    return;
  }
  constexpr std::int64_t default_width = 768;
  model.moe_intermediate_size = fields.integer("moe_intermediate_size", default_width);
  model.norm_topk_prob = fields.truth("norm_topk_prob", false);
  read_dense_layers(fields, model);
  if (model.num_expert_layers() == 0) fields.refuse("num_experts", "no layer has experts", other_model);
}

/// GLM-4.5: sigmoid scores, an MLP beside the experts, and MLPs alone in the first layers. transformers has no
/// auxiliary loss for it, and leaves the layers unread that predict further tokens.
void read_experts_of_glm(ConfigFields& fields, config::Model& model) {
  for (const char* name : {"num_nextn_predict_layers", "num_mtp_layers", "output_router_logits"}) {
    static_cast<void>(fields.value(name));
  }
  model.scoring_func = config::ScoringFunc::sigmoid;
  model.router_aux_loss_coef = 0.0;
  model.num_experts = fields.integer("n_routed_experts", fields.integer("num_local_experts", 128));
  model.num_experts_per_tok = fields.integer("num_experts_per_tok", 8);
  model.moe_intermediate_size = fields.integer("moe_intermediate_size", 1408);
  model.norm_topk_prob = fields.truth("norm_topk_prob", true);
  model.routed_scaling_factor = fields.number("routed_scaling_factor", 1.0);
  model.n_group = fields.integer("n_group", 1);
  model.topk_group = fields.integer("topk_group", 1);
  model.n_shared_experts = fields.integer("n_shared_experts", 1);
  if (model.n_shared_experts == 0) {
    fields.refuse("n_shared_experts", "an MLP stands beside the experts of this family", other_model);
  }
  const std::int64_t num_dense = fields.integer("first_k_dense_replace", 1);
  for (int layer = 0; layer < std::min(num_dense, model.num_hidden_layers); ++layer) {
    model.mlp_only_layers.push_back(layer);
  }
  if (model.num_expert_layers() == 0) fields.refuse("first_k_dense_replace", "no layer has experts", other_model);
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
