// SPDX-License-Identifier: Apache-2.0
#include "hub/families/shared/gemma.hpp"

#include <cmath>

#include "hub/families/shared/reading.hpp"

namespace sft::hub {

void read_gemma(const Reading& r) {
  constexpr const char* activation = "gelu_pytorch_tanh";
  static_cast<void>(r.fields.text("hidden_act", ""));  // an older name, which is not read
  if (r.fields.text("hidden_activation", activation) != activation) {
    r.fields.refuse("hidden_activation", "the gate of a Gemma goes through gelu_pytorch_tanh", other_model);
  }
  if (r.fields.truth("use_bidirectional_attention", false)) {
    r.fields.refuse("use_bidirectional_attention", "attention is causal", other_model);
  }
  const double scalar = r.fields.number("query_pre_attn_scalar", 256.0);
  if (!(scalar > 0)) r.fields.refuse("query_pre_attn_scalar", "scores are divided by its root", "correct config.json");
  read_attention_bias(r, false);
  r.model.hidden_act = config::Activation::gelu_pytorch_tanh;
  r.model.attention_multiplier = 1.0 / std::sqrt(scalar);
  r.model.embedding_multiplier = std::sqrt(static_cast<double>(r.model.hidden_size));
  r.model.rounds_embedding_multiplier = r.model.zero_centered_norms = true;
  r.model.block_norms = config::BlockNorms::gemma2;
}

double read_cap(const Reading& r, const char* name, double fallback) {
  return r.fields.has(name) ? r.fields.number(name, 0.0) : fallback;
}

void read_logit_cap(const Reading& r, double fallback) {
  const double cap = read_cap(r, "final_logit_softcapping", fallback);
  if (!r.is_tower) r.model.final_logit_softcapping = cap;
}

void write_gemma(const Writing& w) {
  const auto cap = [](double value) {
    return value != 0.0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  w.object["hidden_act"] = w.object["hidden_activation"] = "gelu_pytorch_tanh";
  w.object["query_pre_attn_scalar"] = std::llround(score_divisor_of(w.model));
  w.object["attn_logit_softcapping"] = cap(w.model.attn_logit_softcapping);
  w.object["final_logit_softcapping"] = cap(w.model.final_logit_softcapping);
}

double score_divisor_of(const config::Model& model) {
  if (model.attention_multiplier == 0.0) return static_cast<double>(model.head_dim);
  return 1.0 / (model.attention_multiplier * model.attention_multiplier);
}

}  // namespace sft::hub
