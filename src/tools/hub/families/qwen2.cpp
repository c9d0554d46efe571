// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_qwen2(const Reading& r) {
  read_silu(r);
  r.model.attention_bias = true;
  read_windows_of_qwen(r);
  read_rope(r);
}

}  // namespace

Family qwen2() {
  return {.architecture = "Qwen2ForCausalLM",
          .model_type = "qwen2",
          .num_key_value_heads = 32,
          .max_position_embeddings = 32768,
          .read = read_qwen2,
          .choices = {{part::qkv_bias, part::some_windows}},
          .write = write_windows_of_qwen};
}

}  // namespace sft::hub::families
