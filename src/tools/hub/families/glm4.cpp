// SPDX-License-Identifier: Apache-2.0
// GLM-4 of 0414.
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_glm4(const Reading& r) {
  read_silu(r);
  r.model.attention_bias = r.fields.truth("attention_bias", true);
  r.model.block_norms = config::BlockNorms::glm4;
  read_one_kind_of_layer(r);
  read_rope(r, {.rotates_parts = true});
}

}  // namespace

Family glm4() {
  return {.architecture = "Glm4ForCausalLM",
          .model_type = "glm4",
          .num_key_value_heads = 2,
          .head_dim = 128,
          .max_position_embeddings = 131072,
          .partial_rotary_factor = 0.5,
          .rms_norm_eps = 1.5625e-7,
          .pad_token_id = 151329,
          .rules = {fused_mlp(),
                    {"self_attn.q_proj", Cut::rotary_pairs, {{"self_attn.q_proj", Rows::queries}}},
                    {"self_attn.k_proj", Cut::rotary_pairs, {{"self_attn.k_proj", Rows::keys}}}},
          .read = read_glm4,
          .choices = {{part::norms_of_glm4, part::qkv_bias | part::partial_rotation}},
          .write = write_biases};
}

}  // namespace sft::hub::families
