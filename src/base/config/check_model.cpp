// SPDX-License-Identifier: Apache-2.0
// Checks of [model] but for its experts.
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "config/checks.hpp"
#include "config/refusals.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"

namespace sft::config {

namespace {

/// Bounds far above any real model, under which parameters and the elements of a layer's activations are counted in 64
/// bits.
constexpr std::int64_t max_vocab_size = 1 << 24;
constexpr std::int64_t max_depth = 1 << 12;
constexpr std::int64_t max_positions = std::int64_t{1} << 40;
constexpr std::int64_t max_head_dim = 256;  // as far as the attention kernels go

void check_model_sizes(const Config& config) {
  const Model& model = config.model;
  if (model.hidden_size == 0 && model.num_hidden_layers == 0 && model.model_name_or_path.empty()) {
    throw_config_error("no model is given", "there is neither model_name_or_path nor the sizes of one",
                       "give --model_name_or_path FOLDER, a model folder or a name in the hub cache; or hidden_size, "
                       "num_hidden_layers ... under [model] for random weights");
  }
  Refusals refusals;
  refusals.require_size(config, model.hidden_size, "model.hidden_size", max_width);
  refusals.require_size(config, model.num_hidden_layers, "model.num_hidden_layers", max_depth);
  refusals.require_size(config, model.num_attention_heads, "model.num_attention_heads", max_depth);
  if (model.num_key_value_heads != model.num_attention_heads) {  // else they are derived, or wrong in the same way
    refusals.require_size(config, model.num_key_value_heads, "model.num_key_value_heads", max_depth);
  }
  const bool has_head_dim = model.head_dim != 0 || (model.hidden_size >= 1 && model.num_attention_heads >= 1);
  if (has_head_dim) refusals.require_size(config, model.head_dim, "model.head_dim", max_head_dim);
  refusals.require_size(config, model.intermediate_size, "model.intermediate_size", max_width);
  refusals.require_size(config, model.vocab_size, "model.vocab_size", max_vocab_size);
  refusals.require(config, model.max_position_embeddings >= 0 && model.max_position_embeddings <= max_positions,
                   "model.max_position_embeddings", fmt::format("from 0 (not known) to {}", max_positions));
  refusals.require(config, model.sliding_window >= 0, "model.sliding_window", "0 (none) or more");
  refusals.require(config, model.rope_theta > 0, "model.rope_theta", "above 0");
  refusals.require(config, model.rms_norm_eps > 0, "model.rms_norm_eps", "above 0");
  refusals.require(config, model.initializer_range >= 0, "model.initializer_range", "0 or more");
  refusals.require(config, model.llama_4_scaling_beta >= 0, "model.llama_4_scaling_beta",
                   "0 (queries do not grow) or more");
  refusals.require(config, model.embedding_multiplier > 0, "model.embedding_multiplier", "above 0");
  refusals.require(config, model.attention_multiplier >= 0, "model.attention_multiplier",
                   "0 (1 / sqrt(head_dim)) or more");
  refusals.require(config, model.attn_logit_softcapping >= 0, "model.attn_logit_softcapping", "0 (none) or more");
  refusals.require(config, model.residual_multiplier > 0, "model.residual_multiplier", "above 0");
  refusals.require(config, model.logits_scaling > 0, "model.logits_scaling", "above 0");
  refusals.require(config, model.final_logit_softcapping >= 0, "model.final_logit_softcapping", "0 (no cap) or more");
  refusals.require(config, model.rope_local_base_freq >= 0, "model.rope_local_base_freq",
                   "0 (that of all layers) or more");
  refusals.throw_if_any();
  require(config, model.pad_token_id >= -1 && model.pad_token_id < model.vocab_size, "model.pad_token_id",
          fmt::format("from -1 (none) to vocab_size - 1 = {}", model.vocab_size - 1));
}

void derive_model_sizes(Model& model) {
  const std::int64_t num_heads = model.num_attention_heads;
  if (model.num_key_value_heads == 0) model.num_key_value_heads = num_heads;
  if (model.head_dim != 0 || num_heads < 1 || model.hidden_size < 1) return;
  if (model.hidden_size % num_heads != 0) {
    throw_config_error(
        "model.head_dim cannot be derived",
        fmt::format("hidden_size / num_attention_heads = {} / {} is no whole number", model.hidden_size, num_heads),
        "set head_dim, or sizes that divide");
  }
  model.head_dim = model.hidden_size / num_heads;
}

void check_heads(const Model& model) {
  if (const std::int64_t width = model.num_attention_heads * model.head_dim; width > max_width) {
    throw_config_error("the query heads are too wide together",
                       fmt::format("num_attention_heads x head_dim = {} x {} = {}, above {}", model.num_attention_heads,
                                   model.head_dim, width, max_width),
                       "set fewer or smaller heads");
  }
  if (model.num_attention_heads % model.num_key_value_heads != 0) {
    throw_config_error("query heads cannot share key/value heads evenly",
                       fmt::format("num_attention_heads = {} is no multiple of num_key_value_heads = {}",
                                   model.num_attention_heads, model.num_key_value_heads),
                       fmt::format("set num_key_value_heads to a divisor of {}", model.num_attention_heads));
  }
  if (model.head_dim % 2 != 0) {
    throw_config_error(fmt::format("head_dim = {} is odd", model.head_dim),
                       "the rotary embedding turns pairs of a head's columns",
                       fmt::format("set head_dim = {}", model.head_dim + 1));
  }
}

void check_rotation(const Model& model) {
  const RopeScaling& scaling = model.rope_scaling;
  const std::int64_t rotated = model.rotary_dim();
  if (rotated < 2 || rotated > model.head_dim || rotated % 2 != 0) {
    throw_config_error(fmt::format("`model.partial_rotary_factor = {}` rotates {} of {} dims of a head",
                                   model.partial_rotary_factor, rotated, model.head_dim),
                       "the rotary embedding turns pairs of them", "set it to a share that gives an even number");
  }
  const std::int64_t num_factors = std::ssize(scaling.short_factor);
  if (scaling.rope_type == RopeType::longrope && num_factors != rotated / 2) {
    throw_config_error(fmt::format("`model.rope_scaling` has {} in short_factor", plural(num_factors, "number")),
                       fmt::format("{} of a head are rotated in pairs", plural(rotated, "dim")),
                       fmt::format("give {}", rotated / 2));
  }
  if (model.block_norms != BlockNorms::pre && model.residual_multiplier != 1.0) {
    throw_config_error("`model.residual_multiplier` does not go with block_norms",
                       "what is normed is not scaled as well in any model", "leave out one of the two");
  }
  if (model.llama_4_scaling_beta != 0 && scaling.rope_type == RopeType::plain) {
    throw_config_error("`model.llama_4_scaling_beta` has no length to grow from",
                       "it counts from original_max_position_embeddings of rope_scaling", "set rope_scaling");
  }
  if (model.rope_local_base_freq != 0 && (model.layer_types.empty() || model.llama_4_scaling_beta != 0)) {
    throw_config_error(
        "`model.rope_local_base_freq` is of no layer",
        model.layer_types.empty() ? "layer_types does not say which slide" : "llama_4_scaling_beta is of all layers",
        "set layer_types, or leave out rope_local_base_freq");
  }
  if (model.qk_norm_all_heads && !model.qk_norm) {
    throw_config_error("`model.qk_norm_all_heads` says how, but qk_norm = false", "q and k have no norms",
                       "set qk_norm = true");
  }
  if (model.qk_norm_after_rope && (!model.qk_norm || model.qk_norm_all_heads)) {
    throw_config_error("`model.qk_norm_after_rope` is for norms of each head",
                       model.qk_norm ? "qk_norm_all_heads = true" : "qk_norm = false",
                       "set qk_norm = true and qk_norm_all_heads = false");
  }
}

/// Lists with an item for each layer.
void check_layers(const Model& model) {
  const auto require_items = [&](const char* name, std::int64_t num_items, const char* what_to_do) {
    if (num_items == 0 || num_items == model.num_hidden_layers) return;
    throw_config_error(fmt::format("`model.{}` has {}", name, plural(num_items, "item")),
                       fmt::format("there are {}", plural(model.num_hidden_layers, "layer")), what_to_do);
  };
  constexpr const char* give_types = "give full_attention or sliding_attention for each layer";
  require_items("layer_types", std::ssize(model.layer_types), give_types);
  for (const std::string& type : model.layer_types) {
    if (type == "full_attention") continue;
    if (type != "sliding_attention") {
      throw_config_error(fmt::format("`model.layer_types` has {}", type), "there are two kinds of attention",
                         give_types);
    }
    if (model.sliding_window == 0) {
      throw_config_error("`model.layer_types` has sliding_attention without a window", "sliding_window = 0",
                         "set sliding_window to the tokens that a token sees");
    }
  }
  const std::vector<int>& rotated = model.no_rope_layers;
  require_items("no_rope_layers", std::ssize(rotated),
                "give 1, or 0 where queries and keys are not rotated, for each layer");
  if (std::ranges::any_of(rotated, [](int item) { return item != 0 && item != 1; })) {
    throw_config_error("`model.no_rope_layers` has other items than 0 and 1", "a layer is rotated, or it is not",
                       "give 1, or 0 where queries and keys are not rotated, for each layer");
  }
}

}  // namespace

void check_model(Config& config) {
  derive_model_sizes(config.model);
  check_model_sizes(config);
  check_heads(config.model);
  check_rotation(config.model);
  check_layers(config.model);
}

}  // namespace sft::config
