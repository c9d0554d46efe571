// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

/// Refuses what published folders say and transformers does not read, where it means another model.
void check_published_fields(const Reading& r) {
  if (!r.fields.truth("use_qk_norm", true)) r.fields.refuse("use_qk_norm", "queries and keys are normed", other_model);
  if (r.fields.text("qk_norm_type", "per_layer") != "per_layer") {
    r.fields.refuse("qk_norm_type", "norms are over all heads of a layer", other_model);
  }
  if (r.fields.text("scoring_func", "sigmoid") != "sigmoid") {
    r.fields.refuse("scoring_func", "routers have sigmoid scores", other_model);
  }
  if (!r.fields.truth("use_routing_bias", true)) {
    r.fields.refuse("use_routing_bias", "routers have corrections", other_model);
  }
  const std::vector<int> kinds = r.fields.integers("attn_type_list");
  if (std::ranges::any_of(kinds, [](int kind) { return kind != 1; })) {
    r.fields.refuse("attn_type_list", "all layers have softmax attention", other_model);
  }
  if (r.fields.integer("shared_intermediate_size", 0) != 0) {
    r.fields.refuse("shared_intermediate_size", "no MLP stands beside the experts of this family", other_model);
  }
  for (const char* name : {"use_mtp", "num_mtp_modules", "mtp_transformer_layers"}) {
    static_cast<void>(r.fields.value(name));
  }
}

/// Reads the dims of a head that turn: rotary_dim of them, unless a share is said as well.
void read_rotation(const Reading& r) {
  const auto says_share = [](const nlohmann::json& object) {
    return object.is_object() && object.contains("partial_rotary_factor") && !object["partial_rotary_factor"].is_null();
  };
  const bool has_share = says_share(r.fields.object()) || says_share(r.fields.value("rope_parameters")) ||
                         says_share(r.fields.value("rope_scaling"));
  const bool has_dim = !r.fields.value("rotary_dim").is_null();
  const std::int64_t rotary_dim = r.fields.integer("rotary_dim", 0);
  read_rope(r, {.rotates_parts = true});
  if (has_share || !has_dim) return;
  if (rotary_dim < 1) r.fields.refuse("rotary_dim", "no dim of a head would turn", other_model);
  r.model.partial_rotary_factor = static_cast<double>(rotary_dim) / static_cast<double>(r.model.head_dim);
}

/// Takes the auxiliary loss as none, because the one of transformers counts the experts of largest softmax scores, not
/// those that the router chooses.
void drop_auxiliary_loss(const Reading& r) {
  if (r.model.router_aux_loss_coef == 0.0) return;
  r.model.router_aux_loss_coef = 0.0;
  r.warnings.emplace_back(
      "router_aux_loss_coef of config.json is taken as 0, because the auxiliary loss of this family counts experts "
      "that "
      "its router does not choose; TRL adds that loss");
}

void read_minimax_m2(const Reading& r) {
  read_silu(r);
  check_published_fields(r);
  read_one_kind_of_layer(r);
  r.model.qk_norm = r.model.qk_norm_all_heads = true;
  read_rotation(r);
  read_experts(r, 256, 8);
  drop_auxiliary_loss(r);
  refuse_jitter(r);
  r.model.scoring_func = config::ScoringFunc::sigmoid;
  r.model.moe_intermediate_size = r.model.intermediate_size;
  r.model.norm_topk_prob = true;
}

void write_minimax_m2(const Writing& w) {
  write_router(w);
  w.object["num_local_experts"] = w.model.num_experts;
  w.object["router_jitter_noise"] = 0.0;
  w.object["rotary_dim"] = w.model.rotary_dim();
}

}  // namespace

Family minimax_m2() {
  std::vector<Rule> rules = rules_of_mixtral();
  rules.push_back(
      {"block_sparse_moe.e_score_correction_bias", Cut::rows, {{"mlp.gate.e_score_correction_bias", Rows::as_stored}}});
  return {.architecture = "MiniMaxM2ForCausalLM",
          .model_type = "minimax_m2",
          .num_key_value_heads = 8,
          .head_dim = 128,
          .max_position_embeddings = 196608,
          .rope_theta = 5000000.0,
          .rules = std::move(rules),
          .read = read_minimax_m2,
          .choices = {{part::experts | part::sigmoid_router | part::qk_norm | part::norm_of_all_heads |
                           part::normed_weights,
                       part::partial_rotation}},
          .write = write_minimax_m2};
}

}  // namespace sft::hub::families
