// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_rope_of_gpt_oss(const Reading& r) {
  Rope rope = read_rope_object(r, {.fallback = {{"rope_type", "yarn"},
                                                {"factor", 32.0},
                                                {"beta_fast", 32.0},
                                                {"beta_slow", 1.0},
                                                {"truncate", false},
                                                {"original_max_position_embeddings", 4096}}});
  if (rope.object.empty()) {
    r.fields.refuse(rope.field, "it says nothing of the rotary embedding, which is yarn in gpt-oss",
                    "correct config.json");
  }
  set_rope_scaling(r, std::move(rope));
}

void read_gpt_oss(const Reading& r) {
  constexpr std::int64_t period = 2, default_window = 128;
  read_silu(r);
  read_attention_bias(r, true);
  r.model.attention_sinks = true;
  read_alternating_windows(r, period, default_window);
  read_rope_of_gpt_oss(r);
  read_experts(r, 128, 4);
  r.model.moe_intermediate_size = r.model.intermediate_size;
  r.model.norm_topk_prob = true;  // a softmax of the chosen experts' logits
  r.model.expert_form = config::ExpertForm::gpt_oss;
  r.model.swiglu_alpha = r.fields.number("swiglu_alpha", r.model.swiglu_alpha);
  r.model.swiglu_limit = r.fields.number("swiglu_limit", r.model.swiglu_limit);
  // Fields that repeat others.
  for (const char* name : {"experts_per_token", "initial_context_length"}) static_cast<void>(r.fields.value(name));
}

void write_gpt_oss(const Writing& w) {
  write_biases(w);
  write_windows(w);
  write_router(w);
  w.object["num_local_experts"] = w.model.num_experts;
  w.object["swiglu_alpha"] = w.model.swiglu_alpha;
  w.object["swiglu_limit"] = w.model.swiglu_limit;
}

}  // namespace

Family gpt_oss() {
  return {.architecture = "GptOssForCausalLM",
          .model_type = "gpt_oss",
          .num_key_value_heads = 8,
          .head_dim = 64,
          .max_position_embeddings = 131072,
          .rope_theta = 150000.0,
          .rms_norm_eps = 1e-5,
          .rules = {{"mlp.experts.gate_up_proj", Cut::experts, {{"mlp.experts.*.gate_up_proj", Rows::as_stored}}},
                    {"mlp.experts.down_proj", Cut::experts, {{"mlp.experts.*.down_proj", Rows::as_stored}}}},
          .has_mxfp4 = true,
          .read = read_gpt_oss,
          .choices = {{part::experts | part::experts_of_gpt_oss | part::normed_weights | part::attention_sinks |
                           part::some_windows,
                       part::qkvo_bias}},
          .write = write_gpt_oss};
}

}  // namespace sft::hub::families
