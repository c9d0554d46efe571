// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_llama(const Reading& r) {
  read_silu(r);
  read_biases(r);
  read_one_kind_of_layer(r);
  read_rope(r);
}

}  // namespace

Family llama() {
  return {.architecture = "LlamaForCausalLM",
          .model_type = "llama",
          .read = read_llama,
          .choices = {{0, part::qkvo_bias | part::mlp_bias}},
          .write = write_biases};
}

}  // namespace sft::hub::families
