// SPDX-License-Identifier: Apache-2.0
// Experts in config.json.
#include "hub/families/shared/reading.hpp"

namespace sft::hub {

void read_experts(const Reading& r, std::int64_t default_experts, std::int64_t default_choices) {
  constexpr double default_coefficient = 0.001;
  r.model.num_experts = r.fields.integer("num_experts", r.fields.integer("num_local_experts", default_experts));
  r.model.num_experts_per_tok = r.fields.integer("num_experts_per_tok", default_choices);
  static_cast<void>(r.fields.value("output_router_logits"));  // router_aux_loss_coef decides, as in TRL
  r.model.router_aux_loss_coef = r.fields.number("router_aux_loss_coef", default_coefficient);
}

void refuse_jitter(const Reading& r) {
  if (r.fields.number("router_jitter_noise", 0.0) == 0.0) return;
  r.fields.refuse("router_jitter_noise", "there is no noise on what routers read", "set it to 0 in config.json");
}

void require_expert_layers(const Reading& r, const char* field) {
  if (r.model.num_expert_layers() == 0) r.fields.refuse(field, "no layer has experts", other_model);
}

}  // namespace sft::hub
