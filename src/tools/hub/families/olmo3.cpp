// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_olmo3(const Reading& r) {
  constexpr std::int64_t sliding_layers = 3, default_window = 4096;
  read_silu(r);
  read_attention_bias(r, false);
  r.model.block_norms = config::BlockNorms::olmo2;
  r.model.qk_norm = r.model.qk_norm_all_heads = true;
  read_alternating_windows(r, sliding_layers + 1, default_window);
  read_two_ropes(r, r.fields.number("rope_theta", r.family.rope_theta));
}

void write_olmo3(const Writing& w) {
  write_two_ropes(w);
  write_attention_bias(w);
  write_windows(w);
}

}  // namespace

Family olmo3() {
  return {.architecture = "Olmo3ForCausalLM",
          .model_type = "olmo3",
          .rope_theta = 500000.0,
          .rms_norm_eps = 1e-5,
          .pad_token_id = 1,
          .read = read_olmo3,
          .choices = {{part::norms_of_olmo2 | part::qk_norm | part::norm_of_all_heads | part::some_windows |
                           part::local_rope,
                       part::qkvo_bias}},
          .write = write_olmo3};
}

}  // namespace sft::hub::families
