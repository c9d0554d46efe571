// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_mixtral(const Reading& r) {
  read_silu(r);
  read_window_of_all(r, 0);
  read_rope(r);
  read_experts(r, 8, 2);
  r.model.moe_intermediate_size = r.model.intermediate_size;
  r.model.norm_topk_prob = true;
  refuse_jitter(r);
}

void write_mixtral(const Writing& w) {
  write_biases(w);
  write_windows(w);
  write_router(w);
  w.object["num_local_experts"] = w.model.num_experts;
  w.object["router_jitter_noise"] = 0.0;
}

}  // namespace

Family mixtral() {
  return {.architecture = "MixtralForCausalLM",
          .model_type = "mixtral",
          .num_key_value_heads = 8,
          .max_position_embeddings = 131072,
          .rope_theta = 1000000.0,
          .rms_norm_eps = 1e-5,
          .rules = rules_of_mixtral(),
          .adapts_attention_beside_experts = true,
          .read = read_mixtral,
          .choices = {{part::experts | part::normed_weights, part::windows}},
          .write = write_mixtral};
}

}  // namespace sft::hub::families
