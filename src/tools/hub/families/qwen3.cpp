// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_qwen3(const Reading& r) {
  read_silu(r);
  read_attention_bias(r, false);
  r.model.qk_norm = true;
  read_windows_of_qwen(r);
  read_rope(r);
}

void write_qwen3(const Writing& w) {
  write_attention_bias(w);
  write_windows_of_qwen(w);
}

}  // namespace

Family qwen3() {
  return {.architecture = "Qwen3ForCausalLM",
          .model_type = "qwen3",
          .num_key_value_heads = 32,
          .head_dim = 128,
          .max_position_embeddings = 32768,
          .read = read_qwen3,
          .choices = {{part::qk_norm, part::qkvo_bias | part::some_windows}},
          .write = write_qwen3};
}

}  // namespace sft::hub::families
