// SPDX-License-Identifier: Apache-2.0
// Phi-3 and Phi-4.
#include <utility>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_phi3(const Reading& r) {
  constexpr std::int64_t default_original_length = 4096;
  read_silu(r);
  read_window_of_all(r, 0);
  Rope rope = read_rope_object(r, {.rotates_parts = true});
  rope.original_length = default_original_length;
  for (const char* name : {"type", "rope_type"}) {
    const auto kind = rope.object.find(name);
    if (kind != rope.object.end() && (*kind == "su" || *kind == "yarn")) *kind = "longrope";  // older names
  }
  set_rope_scaling(r, std::move(rope));
}

void write_phi3(const Writing& w) {
  write_biases(w);
  write_windows(w);
}

}  // namespace

Family phi3() {
  return {
      .architecture = "Phi3ForCausalLM",
      .model_type = "phi3",
      .max_position_embeddings = 4096,
      .rms_norm_eps = 1e-5,
      .pad_token_id = 32000,
      .rules =
          {{"self_attn.qkv_proj",
            Cut::rows,
            {{"self_attn.q_proj", Rows::queries}, {"self_attn.k_proj", Rows::keys}, {"self_attn.v_proj", Rows::keys}}},
           fused_mlp()},
      .read = read_phi3,
      .choices = {{part::longrope, part::partial_rotation | part::windows}, {part::partial_rotation, part::windows}},
      .write = write_phi3};
}

}  // namespace sft::hub::families
