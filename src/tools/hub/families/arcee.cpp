// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_arcee(const Reading& r) {
  if (r.fields.text("hidden_act", "relu2") != "relu2") {
    r.fields.refuse("hidden_act", "the MLP squares a ReLU, relu2", other_model);
  }
  r.model.hidden_act = config::Activation::relu2;
  r.model.gated_mlp = false;
  read_biases(r);
  read_one_kind_of_layer(r);
  read_rope(r);
}

void write_arcee(const Writing& w) {
  write_biases(w);
  w.object["hidden_act"] = "relu2";
}

}  // namespace

Family arcee() {
  return {.architecture = "ArceeForCausalLM",
          .model_type = "arcee",
          .max_position_embeddings = 4096,
          .rms_norm_eps = 1e-5,
          .read = read_arcee,
          .choices = {{part::squared_relu | part::no_gate, part::qkvo_bias | part::mlp_bias}},
          .write = write_arcee};
}

}  // namespace sft::hub::families
