// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
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

/// What families differ in, as bits of a number.
enum Part : unsigned {
  qkv_bias = 1U << 0U,   ///< on q, k and v alone
  qkvo_bias = 1U << 1U,  ///< on o, too
  o_bias = 1U << 2U,     ///< on o alone
  mlp_bias = 1U << 3U,
  qk_norm = 1U << 4U,
  unrotated_layers = 1U << 5U,
  multipliers = 1U << 6U,
  partial_rotation = 1U << 7U,
  longrope = 1U << 8U,
  growing_queries = 1U << 9U,
  norms_of_glm4 = 1U << 10U,
  windows = 1U << 11U,       ///< on all layers
  some_windows = 1U << 12U,  ///< by layer_types
  capped_scores = 1U << 13U,
  attention_sinks = 1U << 14U,
  experts = 1U << 15U,
  normed_weights = 1U << 16U,  ///< of a token's experts
  dense_layers = 1U << 17U,    ///< beside layers with experts
  own_width = 1U << 18U,       ///< experts have another one than an MLP
  norms_of_olmo2 = 1U << 19U,
  norms_of_gemma2 = 1U << 20U,
  norm_of_all_heads = 1U << 21U,
  local_rope = 1U << 22U,
  gemma = 1U << 23U,          ///< norms, gate and embedding of Gemma
  gemma_in_part = 1U << 24U,  ///< some of these
  logit_cap = 1U << 25U,
  experts_of_gpt_oss = 1U << 26U,
  sigmoid_router = 1U << 28U,
  router_groups = 1U << 29U,  ///< or a factor of weights
  shared_experts = 1U << 30U,
  later_dense_layers = 1U << 31U,  ///< behind some with experts
};

/// What query_pre_attn_scalar of a Gemma is: scores are divided by its root.
double score_divisor_of(const config::Model& model) {
  if (model.attention_multiplier == 0.0) return static_cast<double>(model.head_dim);
  return 1.0 / (model.attention_multiplier * model.attention_multiplier);
}

/// Whether the model has what is the same in Gemma 2 and 3: all of it, some of it or nothing.
unsigned parts_of_gemma(const config::Model& model) {
  const bool has_gelu = model.hidden_act == config::Activation::gelu_pytorch_tanh;
  if (!has_gelu && !model.zero_centered_norms && !model.rounds_embedding_multiplier) return 0;
  const double root = std::sqrt(static_cast<double>(model.hidden_size)), divisor = score_divisor_of(model);
  const bool has_all = has_gelu && model.zero_centered_norms && model.rounds_embedding_multiplier &&
                       std::abs(model.embedding_multiplier - root) <= 1e-9 * root &&
                       std::abs(divisor - std::round(divisor)) <= 1e-9 * divisor;
  return has_all ? gemma : gemma_in_part;
}

unsigned parts_of(const config::Model& model) {
  const unsigned gemma_parts = parts_of_gemma(model);
  const bool has_scaled_embedding = model.embedding_multiplier != 1.0 || model.attention_multiplier != 0.0;
  const bool has_multipliers =
      (has_scaled_embedding && gemma_parts != gemma) || model.residual_multiplier != 1.0 || model.logits_scaling != 1.0;
  unsigned parts = gemma_parts;
  if (model.attention_bias) parts |= model.attention_output_bias ? qkvo_bias : qkv_bias;
  if (model.attention_output_bias && !model.attention_bias) parts |= o_bias;
  if (model.mlp_bias) parts |= mlp_bias;
  if (model.qk_norm) parts |= qk_norm;
  if (!model.no_rope_layers.empty()) parts |= unrotated_layers;
  if (has_multipliers) parts |= multipliers;
  if (model.partial_rotary_factor != 1.0) parts |= partial_rotation;
  if (model.rope_scaling.rope_type == config::RopeType::longrope) parts |= longrope;
  if (model.llama_4_scaling_beta != 0.0) parts |= growing_queries;
  if (model.sliding_window > 0) parts |= model.layer_types.empty() ? windows : some_windows;
  if (model.block_norms == config::BlockNorms::glm4) parts |= norms_of_glm4;
  if (model.block_norms == config::BlockNorms::olmo2) parts |= norms_of_olmo2;
  if (model.block_norms == config::BlockNorms::gemma2) parts |= norms_of_gemma2;
  if (model.qk_norm_all_heads) parts |= norm_of_all_heads;
  if (model.rope_local_base_freq != 0.0) parts |= local_rope;
  if (model.final_logit_softcapping != 0.0) parts |= logit_cap;
  if (model.attn_logit_softcapping > 0.0) parts |= capped_scores;
  if (model.attention_sinks) parts |= attention_sinks;
  if (model.num_experts == 0) return parts;
  parts |= experts;
  if (model.norm_topk_prob) parts |= normed_weights;
  if (model.has_dense_layers()) parts |= dense_layers;
  const auto is_later = [&](int layer) { return layer >= std::ssize(model.mlp_only_layers); };
  if (std::ranges::any_of(model.mlp_only_layers, is_later)) parts |= later_dense_layers;
  if (model.moe_intermediate_size != model.intermediate_size) parts |= own_width;
  if (model.expert_form == config::ExpertForm::gpt_oss) parts |= experts_of_gpt_oss;
  if (model.scoring_func == config::ScoringFunc::sigmoid) parts |= sigmoid_router;
  if (model.n_group != 1 || model.routed_scaling_factor != 1.0) parts |= router_groups;
  if (model.n_shared_experts > 0) parts |= shared_experts;
  return parts;
}

/// The first family that has all of the model's parts, and no others.
std::optional<Family> family_with_parts(const config::Model& model) {
  struct Choice {
    Family family;
    unsigned required, possible;
  };
  constexpr std::array<Choice, 18> choices{
      {{Family::llama, 0, qkvo_bias | mlp_bias},
       {Family::mistral, windows, 0},
       {Family::qwen2, qkv_bias, some_windows},
       {Family::qwen3, qk_norm, qkvo_bias | some_windows},
       {Family::smollm3, unrotated_layers, qkvo_bias | mlp_bias | some_windows},
       {Family::granite, multipliers, qkvo_bias | mlp_bias},
       {Family::phi3, longrope, partial_rotation | windows},
       {Family::phi3, partial_rotation, windows},
       {Family::ministral3, growing_queries, windows},
       {Family::glm4, norms_of_glm4, qkv_bias | partial_rotation},
       {Family::gpt_oss, experts | experts_of_gpt_oss | normed_weights | attention_sinks | some_windows, qkvo_bias},
       {Family::mixtral, experts | normed_weights, windows},
       {Family::qwen3_moe, experts | qk_norm,
        qkvo_bias | windows | normed_weights | dense_layers | later_dense_layers | own_width},
       {Family::olmo2, norms_of_olmo2 | qk_norm | norm_of_all_heads, qkvo_bias},
       {Family::olmo3, norms_of_olmo2 | qk_norm | norm_of_all_heads | some_windows | local_rope, qkvo_bias},
       {Family::gemma2, norms_of_gemma2 | gemma | some_windows, qkvo_bias | logit_cap | capped_scores},
       {Family::gemma3, norms_of_gemma2 | gemma | qk_norm | some_windows | local_rope, qkvo_bias | logit_cap},
       {Family::glm4_moe, experts | sigmoid_router | shared_experts,
        qkv_bias | qk_norm | partial_rotation | router_groups | normed_weights | dense_layers | own_width}}};
  const unsigned parts = parts_of(model);
  for (const Choice& choice : choices) {
    const bool has_required = (parts & choice.required) == choice.required;
    if (has_required && (parts & ~(choice.required | choice.possible)) == 0) return choice.family;
  }
  return std::nullopt;
}

const FamilyDefaults& require_family(const config::Model& model) {
  const std::optional<Family> family = family_with_parts(model);
  if (!family) {
    throw_data_error("the model cannot be written in hub format",
                     "no family that it is read from has its biases, norms, rotation and multipliers together",
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
  if (scaling.rope_type != config::RopeType::yarn && scaling.rope_type != config::RopeType::longrope) return max_length;
  return std::llround(scaling.factor * static_cast<double>(scaling.original_max_position_embeddings));
}

/// Granite has a number where other families have 1 / sqrt(head_dim).
double attention_multiplier_of(const config::Model& model) {
  if (model.attention_multiplier != 0.0) return model.attention_multiplier;
  return 1.0 / std::sqrt(static_cast<double>(model.head_dim));
}

constexpr const char* original_length = "original_max_position_embeddings";

/// Whether the factor of cosines and sines is the one that follows from the growth of the context.
bool follows_from_growth(const config::RopeScaling& scaling, const ordered_json& max_position_embeddings) {
  if (!max_position_embeddings.is_number()) return false;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double growth = max_position_embeddings.get<double>() / original;
  const double derived = growth <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(growth) / std::log(original));
  return std::abs(scaling.attention_factor - derived) <= 1e-9 * derived;
}

/// Of longrope, transformers 4 takes three fields alone in rope_scaling; the others stand outside. And the share of the
/// dims that are rotated stands there, which is a half where GLM does not say it.
void write_older_longrope(ordered_json& object, const config::Model& model) {
  const config::RopeScaling& scaling = model.rope_scaling;
  const bool is_glm =
      model.block_norms == config::BlockNorms::glm4 || model.scoring_func == config::ScoringFunc::sigmoid;
  if (is_glm || model.partial_rotary_factor != 1.0) object["partial_rotary_factor"] = model.partial_rotary_factor;
  if (scaling.rope_type != config::RopeType::longrope) return;
  object["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", scaling.short_factor}, {"long_factor", scaling.long_factor}};
  if (!follows_from_growth(scaling, object.value("max_position_embeddings", ordered_json(4096)))) {
    object["rope_scaling"]["attention_factor"] = scaling.attention_factor;  // which version 4 refuses
  }
  object[original_length] = scaling.original_max_position_embeddings;
}

/// OLMo 2 has two kinds in transformers 4, which it looks for as `type`, beside a factor and nothing else.
void write_older_olmo2(ordered_json& object) {
  if (object.value("model_type", "") != "olmo2" || !object["rope_scaling"].is_object()) return;
  ordered_json& scaling = object["rope_scaling"];
  const std::string kind = scaling.value("rope_type", "");
  if (kind != "linear" && kind != "dynamic") return;
  scaling = {{"type", kind}, {"factor", ordered_json(scaling["factor"])}};
}

void describe_experts_of_glm(ordered_json& object, const config::Model& model) {
  object["n_routed_experts"] = model.num_experts;
  object["moe_intermediate_size"] = model.moe_intermediate_size;
  object["norm_topk_prob"] = model.norm_topk_prob;
  object["routed_scaling_factor"] = model.routed_scaling_factor;
  object["n_group"] = model.n_group;
  object["topk_group"] = model.topk_group;
  object["n_shared_experts"] = model.n_shared_experts;
  object["first_k_dense_replace"] = model.mlp_only_layers.size();
  object["use_qk_norm"] = model.qk_norm;
  object["num_nextn_predict_layers"] = 0;
  object["partial_rotary_factor"] = model.partial_rotary_factor;  // which is 0.5 where it is not said
}

void describe_experts(ordered_json& object, const config::Model& model, Family family) {
  object["num_experts_per_tok"] = model.num_experts_per_tok;
  if (family == Family::glm4_moe) return describe_experts_of_glm(object, model);
  object["output_router_logits"] = false;
  object["router_aux_loss_coef"] = model.router_aux_loss_coef;
  if (family == Family::gpt_oss) {
    object["num_local_experts"] = model.num_experts;
    object["swiglu_alpha"] = model.swiglu_alpha;
    object["swiglu_limit"] = model.swiglu_limit;
    object["layer_types"] = model.layer_types;
    return;
  }
  if (family == Family::mixtral) {
    object["num_local_experts"] = model.num_experts;
    object["router_jitter_noise"] = 0.0;
    return;
  }
  object["num_experts"] = model.num_experts;
  object["moe_intermediate_size"] = model.moe_intermediate_size;
  object["norm_topk_prob"] = model.norm_topk_prob;
  object["decoder_sparse_step"] = 1;
  object["mlp_only_layers"] = model.mlp_only_layers;
}

void write_gemma(ordered_json& object, const config::Model& model) {
  const auto cap = model.final_logit_softcapping;
  object["hidden_act"] = object["hidden_activation"] = "gelu_pytorch_tanh";
  object["query_pre_attn_scalar"] = std::llround(score_divisor_of(model));
  object["attn_logit_softcapping"] =
      model.attn_logit_softcapping != 0.0 ? ordered_json(model.attn_logit_softcapping) : ordered_json(nullptr);
  object["final_logit_softcapping"] = cap != 0.0 ? ordered_json(cap) : ordered_json(nullptr);
}

/// The rotary embeddings of both kinds of layers, which version 4 of transformers knows by other names (Gemma 3) or has
/// one theta for (OLMo 3).
void write_local_rope(ordered_json& object, const config::Model& model) {
  ordered_json full = object["rope_scaling"].is_object() ? object["rope_scaling"] : ordered_json::object();
  if (!full.contains("rope_type")) full["rope_type"] = "default";
  full["rope_theta"] = model.rope_theta;
  if (model.zero_centered_norms) object["rope_local_base_freq"] = model.rope_local_base_freq;
  object["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", model.rope_local_base_freq}}}};
}

/// The config.json of a model that began with random weights, in the form that transformers 4 and 5 read.
ordered_json describe(const config::Model& model, std::int64_t max_length) {
  const FamilyDefaults& family = require_family(model);
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
    if (model.llama_4_scaling_beta != 0.0) object["rope_scaling"]["llama_4_scaling_beta"] = model.llama_4_scaling_beta;
  }
  write_older_longrope(object, model);
  write_older_olmo2(object);
  const bool is_gemma = family.family == Family::gemma2 || family.family == Family::gemma3;
  const bool is_olmo = family.family == Family::olmo2 || family.family == Family::olmo3;
  if (is_gemma) write_gemma(object, model);
  if (model.rope_local_base_freq != 0.0) write_local_rope(object, model);
  if (family.family != Family::qwen2) object["attention_bias"] = model.attention_bias;
  const bool is_qwen =
      family.family == Family::qwen2 || family.family == Family::qwen3 || family.family == Family::qwen3_moe;
  if (!is_qwen && !is_gemma && !is_olmo) object["mlp_bias"] = model.mlp_bias;
  const bool has_windows = model.sliding_window > 0;
  if (is_qwen || family.family == Family::smollm3) object["use_sliding_window"] = has_windows;
  if (has_windows || family.family == Family::mistral) object["sliding_window"] = model.sliding_window;
  if (is_qwen && !model.layer_types.empty()) {
    const auto first = std::ranges::find(model.layer_types, "sliding_attention");
    object["max_window_layers"] = first - model.layer_types.begin();
  }
  if (!model.layer_types.empty() && has_windows) object["layer_types"] = model.layer_types;
  if (family.family == Family::smollm3) object["no_rope_layers"] = model.no_rope_layers;
  if (model.num_experts > 0) describe_experts(object, model, family.family);
  if (family.family == Family::granite) {
    object["embedding_multiplier"] = model.embedding_multiplier;
    object["attention_multiplier"] = attention_multiplier_of(model);
    object["residual_multiplier"] = model.residual_multiplier;
    object["logits_scaling"] = model.logits_scaling;
  }
  return object;
}

bool holds(const ordered_json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && !field->is_null() && !(field->is_object() && field->empty());
}

/// transformers 5 saves the rotary embedding as rope_parameters alone, where version 4, vLLM and llama.cpp do not look:
/// they would take default frequencies without a word. Writes what it says as rope_theta and rope_scaling as well.
void add_older_rope(ordered_json& object, const config::Model& model) {
  if (!holds(object, "rope_parameters")) return;
  const bool has_kinds = object["rope_parameters"].contains("full_attention");
  const ordered_json parameters = has_kinds ? object["rope_parameters"]["full_attention"] : object["rope_parameters"];
  if (model.rope_local_base_freq != 0.0 && object["model_type"] == "gemma3_text" &&
      !object.contains("rope_local_base_freq")) {
    object["rope_local_base_freq"] = model.rope_local_base_freq;
  }
  const bool says_theta = parameters.value("rope_theta", ordered_json()) == model.rope_theta;
  object["rope_theta"] = says_theta ? parameters["rope_theta"] : ordered_json(model.rope_theta);
  if (holds(object, "rope_scaling")) return;  // which counts in version 5 as well
  write_older_longrope(object, model);
  if (holds(object, "rope_scaling")) return;
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
  write_older_olmo2(object);
}

/// transformers 5 saves the experts of Qwen3-MoE under another name than version 4 reads.
void add_older_experts(ordered_json& object, const config::Model& model) {
  if (object.value("model_type", "") == "qwen3_moe") object["num_experts"] = model.num_experts;
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
  if (!original.empty()) {
    ordered_json& decoder = is_tower ? object["text_config"] : object;
    const config::Model parsed = parse_model_config(original, "config.json").model;
    add_older_rope(decoder, parsed);
    add_older_experts(decoder, parsed);
  }
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
