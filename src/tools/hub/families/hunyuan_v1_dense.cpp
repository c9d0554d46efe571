// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

/// Reads the rotary embedding. Scaling of kind `dynamic` with an alpha stretches the base once, for every length.
void read_rope_of_hunyuan(const Reading& r) {
  Rope rope = read_rope_object(r, {});
  const auto kind = rope.object.find("rope_type"), older = rope.object.find("type");
  const bool is_dynamic = (kind != rope.object.end() && *kind == "dynamic") ||
                          (kind == rope.object.end() && older != rope.object.end() && *older == "dynamic");
  const double alpha = is_dynamic ? take_number(r.fields, rope, "alpha", 0.0) : 0.0;
  if (alpha != 0.0) {
    if (!(alpha > 0.0) || r.model.head_dim <= 2) r.fields.refuse(rope.field, "alpha stretches nothing", other_model);
    const auto dims = static_cast<double>(r.model.head_dim);
    r.model.rope_theta *= std::pow(alpha, dims / (dims - 2.0));
    rope.object = nlohmann::json::object();
  }
  set_rope_scaling(r, std::move(rope));
}

void read_hunyuan_v1_dense(const Reading& r) {
  read_silu(r);
  read_attention_bias(r, false);
  r.model.qk_norm = r.model.qk_norm_after_rope = true;
  if (!r.fields.truth("use_qk_norm", true)) r.fields.refuse("use_qk_norm", "queries and keys are normed", other_model);
  static_cast<void>(r.fields.value("eod_token_id"));
  read_one_kind_of_layer(r);
  read_rope_of_hunyuan(r);
}

}  // namespace

Family hunyuan_v1_dense() {
  return {.architecture = "HunYuanDenseV1ForCausalLM",
          .model_type = "hunyuan_v1_dense",
          .rms_norm_eps = 1e-5,
          .pad_token_id = 0,
          .rules = {{"self_attn.query_layernorm", Cut::rows, {{"self_attn.q_norm", Rows::as_stored}}},
                    {"self_attn.key_layernorm", Cut::rows, {{"self_attn.k_norm", Rows::as_stored}}}},
          .read = read_hunyuan_v1_dense,
          .choices = {{part::qk_norm | part::norm_of_rotated_heads, part::qkvo_bias}},
          .write = write_attention_bias};
}

}  // namespace sft::hub::families
