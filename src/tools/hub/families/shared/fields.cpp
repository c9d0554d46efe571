// SPDX-License-Identifier: Apache-2.0
// Activations and biases in config.json.
#include "hub/families/shared/reading.hpp"

namespace sft::hub {

void read_silu(const Reading& r) {
  const std::string activation = r.fields.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    r.fields.refuse("hidden_act", "the MLP is SwiGLU, with silu", other_model);
  }
}

void read_attention_bias(const Reading& r, bool fallback) {
  r.model.attention_bias = r.fields.truth("attention_bias", fallback);
  r.model.attention_output_bias = r.model.attention_bias;
}

void read_biases(const Reading& r) {
  read_attention_bias(r, false);
  r.model.mlp_bias = r.fields.truth("mlp_bias", false);
}

}  // namespace sft::hub
