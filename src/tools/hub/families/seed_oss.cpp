// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"

namespace sft::hub::families {

namespace {

/// Reads the dropout of published folders, 0.1 in attention and after each sublayer.
void read_dropout(const Reading& r) {
  constexpr double published = 0.1;
  const double attention = r.fields.number("attention_dropout", published);
  const double residual = r.fields.number("residual_dropout", published);
  if (attention == 0.0 && residual == 0.0) return;
  r.warnings.emplace_back(
      "attention_dropout and residual_dropout of config.json, which transformers applies in training, are taken as 0");
}

void read_seed_oss(const Reading& r) {
  read_silu(r);
  read_dropout(r);
  r.model.attention_bias = r.fields.truth("attention_bias", true);
  r.model.attention_output_bias = r.fields.truth("attention_out_bias", false);
  r.model.mlp_bias = r.fields.truth("mlp_bias", false);
  read_one_kind_of_layer(r);
  read_rope(r);
}

}  // namespace

Family seed_oss() {
  return {.architecture = "SeedOssForCausalLM",
          .model_type = "seed_oss",
          .num_key_value_heads = 8,
          .head_dim = 128,
          .max_position_embeddings = 524288,
          .pad_token_id = 1,
          .has_dropout = true,
          .read = read_seed_oss};
}

}  // namespace sft::hub::families
