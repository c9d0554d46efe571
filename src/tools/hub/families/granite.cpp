// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "hub/families/family.hpp"
#include "hub/families/shared/granite.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_granite(const Reading& r) {
  read_silu(r);
  read_biases(r);
  read_one_kind_of_layer(r);
  read_rope(r);
  read_multipliers(r);
}

void write_granite(const Writing& w) {
  const bool has_own = w.model.attention_multiplier != 0.0;  // in place of 1 / sqrt(head_dim)
  write_biases(w);
  w.object["embedding_multiplier"] = w.model.embedding_multiplier;
  w.object["attention_multiplier"] =
      has_own ? w.model.attention_multiplier : 1.0 / std::sqrt(static_cast<double>(w.model.head_dim));
  w.object["residual_multiplier"] = w.model.residual_multiplier;
  w.object["logits_scaling"] = w.model.logits_scaling;
}

}  // namespace

Family granite() {
  return {.architecture = "GraniteForCausalLM",
          .model_type = "granite",
          .read = read_granite,
          .choices = {{part::multipliers, part::qkvo_bias | part::mlp_bias}},
          .write = write_granite};
}

}  // namespace sft::hub::families
