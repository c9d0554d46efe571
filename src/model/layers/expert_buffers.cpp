// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layers/expert_buffers.hpp"

namespace sft::model {

void take_decisions(ExpertActivations& a, device::Arena& arena, const Sizes& s) {
  const std::int64_t num_experts = s.experts, num_choices = s.expert_choices;
  a.logits = take(arena, DType::float32, {s.tokens, num_experts});
  a.experts = take(arena, DType::int32, {s.tokens, num_choices});
  a.weights = take(arena, DType::float32, {s.tokens, num_choices});
  a.choices = take(arena, DType::int32, {s.expert_rows(s.tokens)});
  a.rows = take(arena, DType::int32, {s.tokens, num_choices});
  a.counts = take(arena, DType::int32, {num_experts});
  a.offsets = take(arena, DType::int32, {num_experts + 1});
}

void take_expert_products(ExpertActivations& a, device::Arena& arena, const Sizes& s) {
  a.gate_up = take(arena, s.compute, {s.arriving_rows(), 2 * s.expert_mlp});
}

std::vector<Tensor> decisions_of(const ExpertActivations& a) {
  return {a.logits, a.experts, a.weights, a.choices, a.rows, a.counts, a.offsets};
}

ExpertActivations first_tokens(ExpertActivations all, std::int64_t num_tokens) {
  if (all.logits.empty()) return all;
  const std::int64_t num_choices = all.experts.shape[1];
  const std::int64_t num_rows = all.choices.shape[0] - (all.logits.shape[0] - num_tokens) * num_choices;
  for (Tensor* tensor : {&all.logits, &all.experts, &all.weights, &all.rows}) *tensor = tensor->rows(0, num_tokens);
  all.choices = all.choices.rows(0, num_rows);
  return all;
}

ExpertScratch take_forward_expert_scratch(device::Arena& arena, const Sizes& s) {
  ExpertScratch b;
  b.rows = take(arena, s.compute, {s.expert_rows(s.tokens), s.hidden});
  if (s.ep_size > 1) b.arrived = take(arena, s.compute, {s.arriving_rows(), s.hidden});
  b.act = take(arena, s.compute, {s.act_rows(), s.expert_mlp});
  b.all_counts = take(arena, DType::int32, {s.ep_size, s.experts});
  if (s.expert_rank > 0) b.low = take(arena, s.compute, {s.arriving_rows() * s.expert_rank});
  return b;
}

ExpertScratch take_expert_scratch(device::Arena& arena, const Sizes& s, bool keeps_products) {
  ExpertScratch b = take_forward_expert_scratch(arena, s);
  if (!keeps_products) b.gate_up = take(arena, s.compute, {s.arriving_rows(), 2 * s.expert_mlp});
  if (s.expert_rank > 0) b.low_grad = take(arena, s.compute, {s.arriving_rows() * s.expert_rank});
  b.dlogits = take(arena, DType::float32, {s.tokens, s.experts});
  b.dlogits_rounded = s.compute == DType::float32 ? b.dlogits : take(arena, s.compute, {s.tokens, s.experts});
  b.dweights = take(arena, DType::float32, {s.tokens, s.expert_choices});
  return b;
}

}  // namespace sft::model
