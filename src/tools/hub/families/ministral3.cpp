// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_ministral3(const Reading& r) {
  read_silu(r);
  read_window_of_all(r, 0);
  Rope rope = read_rope_object(r, {.fallback = {{"rope_type", "yarn"},
                                                {"rope_theta", 1000000.0},
                                                {"factor", 16.0},
                                                {"beta_fast", 32.0},
                                                {"beta_slow", 1.0},
                                                {"mscale", 1.0},
                                                {"mscale_all_dim", 1.0},
                                                {"llama_4_scaling_beta", 0.1},
                                                {"original_max_position_embeddings", 16384}}});
  if (rope.object.empty())
    r.fields.refuse(rope.field, "it says nothing of the rotary embedding", "correct config.json");
  r.model.llama_4_scaling_beta = take_number(r.fields, rope, "llama_4_scaling_beta", 0.0);
  rope.object.erase("max_position_embeddings");
  set_rope_scaling(r, std::move(rope));
}

void write_ministral3(const Writing& w) {
  nlohmann::ordered_json& scaling = w.object["rope_scaling"];
  if (scaling.is_object()) scaling["llama_4_scaling_beta"] = w.model.llama_4_scaling_beta;
  write_biases(w);
  write_windows(w);
}

}  // namespace

Family ministral3() {
  return {.architecture = "Ministral3ForCausalLM",
          .model_type = "ministral3",
          .num_key_value_heads = 8,
          .head_dim = 128,
          .max_position_embeddings = 262144,
          .rms_norm_eps = 1e-5,
          .pad_token_id = 11,
          .read = read_ministral3,
          .choices = {{part::growing_queries, part::windows}},
          .write = write_ministral3};
}

}  // namespace sft::hub::families
