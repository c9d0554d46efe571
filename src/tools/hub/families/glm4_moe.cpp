// SPDX-License-Identifier: Apache-2.0
// GLM-4.5.
#include <algorithm>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

/// Reads sigmoid scores, an MLP alongside the experts, and MLPs alone in the first layers. transformers has no
/// auxiliary loss for this family.
void read_experts_of_glm4_moe(const Reading& r) {
  for (const char* name : {"num_nextn_predict_layers", "num_mtp_layers", "output_router_logits"}) {
    static_cast<void>(r.fields.value(name));
  }
  config::Model& model = r.model;
  model.scoring_func = config::ScoringFunc::sigmoid;
  model.router_aux_loss_coef = 0.0;
  model.num_experts = r.fields.integer("n_routed_experts", r.fields.integer("num_local_experts", 128));
  model.num_experts_per_tok = r.fields.integer("num_experts_per_tok", 8);
  model.moe_intermediate_size = r.fields.integer("moe_intermediate_size", 1408);
  model.norm_topk_prob = r.fields.truth("norm_topk_prob", true);
  model.routed_scaling_factor = r.fields.number("routed_scaling_factor", 1.0);
  model.n_group = r.fields.integer("n_group", 1);
  model.topk_group = r.fields.integer("topk_group", 1);
  model.n_shared_experts = r.fields.integer("n_shared_experts", 1);
  if (model.n_shared_experts == 0) {
    r.fields.refuse("n_shared_experts", "an MLP stands beside the experts of this family", other_model);
  }
  const std::int64_t num_dense = r.fields.integer("first_k_dense_replace", 1);
  for (int layer = 0; layer < std::min(num_dense, model.num_hidden_layers); ++layer) {
    model.mlp_only_layers.push_back(layer);
  }
  require_expert_layers(r, "first_k_dense_replace");
}

void read_glm4_moe(const Reading& r) {
  read_silu(r);
  r.model.attention_bias = r.fields.truth("attention_bias", false);
  r.model.qk_norm = r.fields.truth("use_qk_norm", false);
  read_one_kind_of_layer(r);
  read_rope(r, {.rotates_parts = true});
  read_experts_of_glm4_moe(r);
}

void write_glm4_moe(const Writing& w) {
  write_biases(w);
  w.object["num_experts_per_tok"] = w.model.num_experts_per_tok;
  w.object["n_routed_experts"] = w.model.num_experts;
  w.object["moe_intermediate_size"] = w.model.moe_intermediate_size;
  w.object["norm_topk_prob"] = w.model.norm_topk_prob;
  w.object["routed_scaling_factor"] = w.model.routed_scaling_factor;
  w.object["n_group"] = w.model.n_group;
  w.object["topk_group"] = w.model.topk_group;
  w.object["n_shared_experts"] = w.model.n_shared_experts;
  w.object["first_k_dense_replace"] = w.model.mlp_only_layers.size();
  w.object["use_qk_norm"] = w.model.qk_norm;
  w.object["num_nextn_predict_layers"] = 0;
}

}  // namespace

Family glm4_moe() {
  return {.architecture = "Glm4MoeForCausalLM",
          .model_type = "glm4_moe",
          .num_key_value_heads = 8,
          .max_position_embeddings = 131072,
          .partial_rotary_factor = 0.5,
          .rms_norm_eps = 1e-5,
          .has_later_layers = true,
          .read = read_glm4_moe,
          .choices = {{part::experts | part::sigmoid_router | part::shared_experts,
                       part::qkv_bias | part::qk_norm | part::partial_rotation | part::router_groups |
                           part::normed_weights | part::dense_layers | part::own_width}},
          .write = write_glm4_moe};
}

}  // namespace sft::hub::families
