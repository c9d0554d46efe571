// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_mistral(const Reading& r) {
  constexpr std::int64_t default_window = 4096;
  read_silu(r);
  read_window_of_all(r, default_window);
  read_rope(r);
}

void write_mistral(const Writing& w) {
  write_biases(w);
  w.object["sliding_window"] = w.model.sliding_window;
}

}  // namespace

Family mistral() {
  return {.architecture = "MistralForCausalLM",
          .model_type = "mistral",
          .num_key_value_heads = 8,
          .max_position_embeddings = 131072,
          .read = read_mistral,
          .choices = {{part::windows, 0}},
          .write = write_mistral};
}

}  // namespace sft::hub::families
