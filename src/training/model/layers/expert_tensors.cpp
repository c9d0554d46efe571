// SPDX-License-Identifier: Apache-2.0
#include "model/layers/expert_tensors.hpp"

namespace sft::model {

ExpertDecisions::ExpertDecisions(const SublayerTensors& own)
    : logits(own["logits"]),
      experts(own["experts"]),
      weights(own["weights"]),
      choices(own["choices"]),
      rows(own["rows"]),
      counts(own["counts"]),
      offsets(own["offsets"]) {}

ExpertDecisions ExpertDecisions::first_tokens(std::int64_t num_tokens) const {
  ExpertDecisions first = *this;
  const std::int64_t num_choices = experts.shape[1];
  const std::int64_t num_rows = choices.shape[0] - (logits.shape[0] - num_tokens) * num_choices;
  for (Tensor* tensor : {&first.logits, &first.experts, &first.weights, &first.rows}) {
    *tensor = tensor->rows(0, num_tokens);
  }
  first.choices = choices.rows(0, num_rows);
  return first;
}

ExpertTensors::ExpertTensors(const SublayerTensors& own)
    : keeps_gate_up(!own["kept_expert_gate_up"].empty()),
      rows(own["token_rows"]),
      arrived(own["arrived"]),
      act(own["expert_act"]),
      all_counts(own["all_counts"]),
      low(own["low"]),
      low_grad(own["low_grad"]),
      dlogits(own["dlogits"]),
      dlogits_rounded(own["dlogits_rounded"].empty() ? dlogits : own["dlogits_rounded"]),
      dweights(own["dweights"]) {
  gate_up = own[keeps_gate_up ? "kept_expert_gate_up" : "expert_gate_up"];
}

std::vector<SublayerTensor> expert_tensors(const Sizes& s, const ActivationPolicy& policy) {
  const ExpertSizes& e = s.experts;
  const std::int64_t num_experts = e.count, num_choices = e.choices, num_arriving = e.arriving_rows();
  constexpr auto float32 = DType::float32, int32 = DType::int32;
  std::vector<SublayerTensor> all = {{"logits", Lifetime::input, form_of(float32, {s.tokens, num_experts})},
                                     {"experts", Lifetime::input, form_of(int32, {s.tokens, num_choices})},
                                     {"weights", Lifetime::input, form_of(float32, {s.tokens, num_choices})},
                                     {"choices", Lifetime::input, form_of(int32, {e.rows(s.tokens)}), num_choices},
                                     {"rows", Lifetime::input, form_of(int32, {s.tokens, num_choices})},
                                     {"counts", Lifetime::input, form_of(int32, {num_experts}), 0},
                                     {"offsets", Lifetime::input, form_of(int32, {num_experts + 1}), 0}};
  const auto add = [&](const char* name, Lifetime lifetime, const Tensor& form) {
    all.push_back({name, lifetime, form, /*rows_of_token=*/0});
  };
  const Tensor gate_up = form_of(s.compute, {num_arriving, 2 * e.columns});
  if (policy.keeps_products()) {
    add("kept_expert_gate_up", Lifetime::products, gate_up);
  } else {
    add("expert_gate_up", Lifetime::pass, gate_up);
  }
  add("token_rows", Lifetime::pass, form_of(s.compute, {e.rows(s.tokens), s.hidden}));
  if (e.ep_size > 1) add("arrived", Lifetime::pass, form_of(s.compute, {num_arriving, s.hidden}));
  add("expert_act", Lifetime::pass, form_of(s.compute, {e.act_rows(), e.columns}));
  add("all_counts", Lifetime::pass, form_of(int32, {e.ep_size, num_experts}));
  if (e.adapter_rank > 0) {
    add("low", Lifetime::pass, form_of(s.compute, {num_arriving * e.adapter_rank}));
    add("low_grad", Lifetime::backward, form_of(s.compute, {num_arriving * e.adapter_rank}));
  }
  add("dlogits", Lifetime::backward, form_of(float32, {s.tokens, num_experts}));
  if (s.compute != float32) {
    add("dlogits_rounded", Lifetime::backward, form_of(s.compute, {s.tokens, num_experts}));
  }
  add("dweights", Lifetime::backward, form_of(float32, {s.tokens, num_choices}));
  return all;
}

}  // namespace sft::model
