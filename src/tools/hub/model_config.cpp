// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/model_config.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>

#include "config_fields.hpp"
#include "families/family.hpp"
#include "families/shared/reading.hpp"
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

/// Refuses weights in a form that is not read. What is quantized is trained with as the numbers that it stands for.
void check_quantization(ConfigFields& fields, const Family& family) {
  if (read_quantization(fields).form != StoredForm::mxfp4 || family.has_mxfp4) return;
  fields.refuse("quantization_config", "experts of gpt-oss alone are read in MXFP4",
                "give the model before it was quantized");
}

void refuse_what_is_not_there(ConfigFields& fields, const Family& family) {
  for (const char* name : {"attention_dropout", "resid_pdrop", "embd_pdrop"}) {
    if (!family.has_dropout && fields.number(name, 0.0) != 0.0) {
      fields.refuse(name, "there is no dropout, and training with it would be another training",
                    "set it to 0 in config.json");
    }
  }
  if (!fields.truth("is_causal", true)) fields.refuse("is_causal", "attention is causal", other_model);
}

void read_sizes(ConfigFields& fields, const Family& family, config::Model& model) {
  model.hidden_size = fields.required_integer("hidden_size");
  model.num_hidden_layers = fields.required_integer("num_hidden_layers");
  const auto required = [&](const char* name, std::int64_t fallback) {
    return fallback == 0 ? fields.required_integer(name) : fields.integer(name, fallback);
  };
  model.num_attention_heads = required("num_attention_heads", family.num_attention_heads);
  model.intermediate_size = fields.required_integer(family.width_field);
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
void read_padding(ConfigFields& fields, const Family& family, config::Model& model) {
  const auto value = fields.value("pad_token_id");
  if (!value.is_null() && !value.is_number_integer()) fields.refuse_kind("pad_token_id", "a whole number");
  if (fields.has("pad_token_id") && value.is_null()) return;
  auto id = value.is_null() ? family.pad_token_id : value.get<std::int64_t>();
  if (!value.is_null() && id < 0) id += model.vocab_size;
  if (id >= 0 && id < model.vocab_size) model.pad_token_id = id;
}

/// Reads what a model of several towers says of the text tower: whether its head is tied, which it is by default.
bool read_around_tower(const nlohmann::json& whole, const std::string& source, const Family& family) {
  ConfigFields fields(whole, source);
  check_quantization(fields, family);
  return fields.truth("tie_word_embeddings", true);
}

}  // namespace

ModelConfig parse_model_config(const std::string& text, const std::string& source) {
  const nlohmann::json whole = parse_json_object(text, source);
  const nlohmann::json& object = decoder_config(whole);
  ConfigFields fields(object, source);
  const Family& family = family_of(fields);
  check_quantization(fields, family);
  refuse_what_is_not_there(fields, family);
  ModelConfig result;
  config::Model& model = result.model;
  read_sizes(fields, family, model);
  read_padding(fields, family, model);
  model.rms_norm_eps = fields.number("rms_norm_eps", family.rms_norm_eps);
  const bool is_tower = is_tower_config(whole);
  if (is_tower) model.tie_word_embeddings = read_around_tower(whole, source, family);
  model.initializer_range = fields.number("initializer_range", model.initializer_range);
  family.read({fields, family, is_tower, model, result.warnings});

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
