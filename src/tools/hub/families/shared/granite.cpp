// SPDX-License-Identifier: Apache-2.0
#include "hub/families/shared/granite.hpp"

namespace sft::hub {

void read_multipliers(const Reading& r) {
  const auto read = [&](const char* name) {
    const double value = r.fields.number(name, 1.0);
    if (!(value > 0)) r.fields.refuse(name, "it multiplies or divides by nothing", "correct config.json");
    return value;
  };
  r.model.embedding_multiplier = read("embedding_multiplier");
  r.model.attention_multiplier = read("attention_multiplier");
  r.model.residual_multiplier = read("residual_multiplier");
  r.model.logits_scaling = read("logits_scaling");
}

}  // namespace sft::hub
