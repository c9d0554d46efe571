// SPDX-License-Identifier: Apache-2.0
#include "hub/families/shared/writing.hpp"

#include <algorithm>

namespace sft::hub {

void write_attention_bias(const Writing& w) { w.object["attention_bias"] = w.model.attention_bias; }

void write_biases(const Writing& w) {
  write_attention_bias(w);
  w.object["mlp_bias"] = w.model.mlp_bias;
}

void write_windows(const Writing& w) {
  if (w.model.sliding_window == 0) return;
  w.object["sliding_window"] = w.model.sliding_window;
  if (!w.model.layer_types.empty()) w.object["layer_types"] = w.model.layer_types;
}

void write_windows_of_qwen(const Writing& w) {
  w.object["use_sliding_window"] = w.model.sliding_window > 0;
  if (w.model.sliding_window > 0) w.object["sliding_window"] = w.model.sliding_window;
  if (!w.model.layer_types.empty()) {
    const auto first = std::ranges::find(w.model.layer_types, "sliding_attention");
    w.object["max_window_layers"] = first - w.model.layer_types.begin();
  }
  write_windows(w);
}

void write_two_ropes(const Writing& w) {
  using nlohmann::ordered_json;
  ordered_json full = w.object["rope_scaling"].is_object() ? w.object["rope_scaling"] : ordered_json::object();
  if (!full.contains("rope_type")) full["rope_type"] = "default";
  full["rope_theta"] = w.model.rope_theta;
  w.object["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", w.model.rope_local_base_freq}}}};
}

void write_router(const Writing& w) {
  w.object["num_experts_per_tok"] = w.model.num_experts_per_tok;
  w.object["output_router_logits"] = false;
  w.object["router_aux_loss_coef"] = w.model.router_aux_loss_coef;
}

}  // namespace sft::hub
