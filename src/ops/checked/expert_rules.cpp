// SPDX-License-Identifier: Apache-2.0
#include "ops/checked/expert_rules.hpp"

#include <fmt/core.h>

#include "ops/checked/call.hpp"
#include "ops/expert_tensors.hpp"

namespace sft::ops::checked {

namespace {

void check_rule(const Call& call, const RouterRule& rule, std::int64_t num_experts, std::int64_t num_choices) {
  call.require(num_experts > 0 && num_experts <= max_experts,
               fmt::format("logits has {} experts; at most {} there may be", num_experts, max_experts));
  call.require(rule.num_groups > 0 && rule.num_groups <= max_expert_choices && num_experts % rule.num_groups == 0,
               fmt::format("rule.num_groups = {} does not divide {} experts", rule.num_groups, num_experts));
  const std::int64_t size = num_experts / rule.num_groups;
  call.require(rule.num_groups == 1 || size > 1, "rule.num_groups leaves one expert for a group");
  call.require(rule.chosen_groups > 0 && rule.chosen_groups <= rule.num_groups,
               "rule.chosen_groups is no number of groups");
  call.require(num_choices > 0 && num_choices <= max_expert_choices && num_choices <= size * rule.chosen_groups,
               fmt::format("experts has {} choices of a token", num_choices));
}

void check_offsets(const Call& call, ExpertOffsets offsets, std::int64_t num_experts, std::int64_t num_rows) {
  call.require(are_offsets(offsets, num_experts, num_rows),
               fmt::format("offsets are not those of {} experts within {} rows", num_experts, num_rows));
}

/// Numbers by choice: of as many choices as another tensor of the call says.
void check_choices(Call& call, std::string_view name, const ConstTensor& x, std::int64_t num_tokens) {
  call.require_dims(name, x, 2);
  call.in(name, x, {num_tokens, x.shape[1]}, DType::int32);
}

}  // namespace

void check_router_forward(const RouterForward& router) {
  Call call("router_forward");
  call.require_dims("logits", router.logits, 2);
  call.require_dims("experts", router.experts, 2);
  const std::int64_t num_tokens = router.logits.shape[0], num_experts = router.logits.shape[1],
                     num_choices = router.experts.shape[1];
  check_rule(call, router.rule, num_experts, num_choices);
  call.in("logits", router.logits, {num_tokens, num_experts}, DType::float32);
  if (!router.correction.empty()) {
    call.require(router.rule.score == RouterScore::sigmoid, "correction is given with softmax scores");
    call.in("correction", router.correction, {num_experts}, DType::float32);
  }
  call.out("experts", router.experts, {num_tokens, num_choices}, DType::int32);
  call.out("weights", router.weights, {num_tokens, num_choices}, DType::float32);
  call.check_memory();
}

void check_router_backward(const RouterBackward& router) {
  Call call("router_backward");
  call.require_dims("logits", router.logits, 2);
  const std::int64_t num_tokens = router.logits.shape[0], num_experts = router.logits.shape[1];
  call.in("logits", router.logits, {num_tokens, num_experts}, DType::float32);
  check_choices(call, "experts", router.experts, num_tokens);
  const std::int64_t num_choices = router.experts.shape[1];
  check_rule(call, router.rule, num_experts, num_choices);
  call.in("dweights", router.dweights, {num_tokens, num_choices}, DType::float32);
  call.out("dlogits", router.dlogits, {num_tokens, num_experts}, DType::float32);
  call.check_memory();
}

void check_router_sums(const RouterSums& sums) {
  Call call("router_sums");
  call.require_dims("logits", sums.logits, 2);
  const std::int64_t num_experts = sums.logits.shape[1];
  call.require(num_experts > 0 && num_experts <= max_experts, "logits has no such number of experts");
  call.in("logits", sums.logits, {sums.logits.shape[0], num_experts}, DType::float32);
  call.in("expert_counts", sums.expert_counts, {num_experts}, DType::int32);
  call.out("counts", sums.counts, {num_experts}, DType::float64);
  call.out("probabilities", sums.probabilities, {num_experts}, DType::float64);
  call.check_memory();
}

void check_router_sums_backward(const RouterSumsBackward& sums) {
  Call call("router_sums_backward");
  call.require_dims("logits", sums.logits, 2);
  const std::int64_t num_experts = sums.logits.shape[1];
  call.require(num_experts > 0 && num_experts <= max_experts, "logits has no such number of experts");
  call.in("logits", sums.logits, {sums.logits.shape[0], num_experts}, DType::float32);
  call.in("counts", sums.counts, {num_experts}, DType::float64);
  call.out("dlogits", sums.dlogits, {sums.logits.shape[0], num_experts}, DType::float32);
  call.check_memory();
}

void check_expert_order(const ExpertOrder& order) {
  Call call("expert_order");
  call.require_dims("experts", order.experts, 2);
  call.require_dims("counts", order.counts, 1);
  call.require_dims("choices", order.choices, 1);
  const std::int64_t num_tokens = order.experts.shape[0], num_choices = order.experts.shape[1],
                     num_experts = order.counts.shape[0], num_rows = order.choices.shape[0];
  call.require(num_experts > 0 && num_experts <= max_experts, "counts has no such number of experts");
  call.require(
      num_tokens * num_choices <= max_ordered_choices,
      fmt::format("experts has {} choices; at most {} there may be", num_tokens * num_choices, max_ordered_choices));
  call.require(order.alignment > 0 && (order.alignment & (order.alignment - 1)) == 0,
               fmt::format("alignment = {} is no power of two", order.alignment));
  call.require(num_rows >= num_tokens * num_choices + num_experts * (order.alignment - 1),
               fmt::format("choices has {} rows; it must have room for all choices", num_rows));
  call.in("experts", order.experts, {num_tokens, num_choices}, DType::int32);
  call.out("counts", order.counts, {num_experts}, DType::int32);
  call.out("offsets", order.offsets, {num_experts + 1}, DType::int32);
  call.out("choices", order.choices, {num_rows}, DType::int32);
  call.out("rows", order.rows, {num_tokens, num_choices}, DType::int32);
  call.check_memory();
}

void check_gather_tokens(const GatherTokens& gather) {
  Call call("gather_tokens");
  call.require_dims("in", gather.in, 2);
  call.require_dims("choices", gather.choices, 1);
  const DType compute = compute_of(call, "in", gather.in);
  const std::int64_t num_tokens = gather.in.shape[0], num_columns = gather.in.shape[1];
  call.require(gather.num_choices > 0, "num_choices is no number of choices");
  call.in("in", gather.in, {num_tokens, num_columns}, compute);
  call.in("choices", gather.choices, {gather.choices.shape[0]}, DType::int32);
  if (!gather.weights.empty()) call.in("weights", gather.weights, {num_tokens, gather.num_choices}, DType::float32);
  call.out("out", gather.out, {gather.choices.shape[0], num_columns}, compute);
  call.check_memory();
}

void check_combine_rows(const CombineRows& combine) {
  Call call("combine_rows");
  call.require_dims("in", combine.in, 2);
  call.require_dims("out", combine.out, 2);
  const DType compute = compute_of(call, "in", combine.in);
  const std::int64_t num_tokens = combine.out.shape[0], num_columns = combine.in.shape[1];
  call.in("in", combine.in, {combine.in.shape[0], num_columns}, compute);
  check_choices(call, "rows", combine.rows, num_tokens);
  if (!combine.weights.empty()) {
    call.in("weights", combine.weights, {num_tokens, combine.rows.shape[1]}, DType::float32);
  }
  call.out("out", combine.out, {num_tokens, num_columns}, {compute, DType::float32});
  call.check_memory();
}

void check_combine_weights_backward(const CombineWeightsBackward& combine) {
  Call call("combine_weights_backward");
  call.require_dims("in", combine.in, 2);
  call.require_dims("dout", combine.dout, 2);
  const DType compute = compute_of(call, "in", combine.in);
  const std::int64_t num_tokens = combine.dout.shape[0], num_columns = combine.in.shape[1];
  call.in("in", combine.in, {combine.in.shape[0], num_columns}, compute);
  call.in("dout", combine.dout, {num_tokens, num_columns}, compute);
  check_choices(call, "rows", combine.rows, num_tokens);
  call.out("dweights", combine.dweights, {num_tokens, combine.rows.shape[1]}, DType::float32);
  call.check_memory();
}

void check_grouped_matmul(const GroupedMatmul& grouped) {
  Call call("grouped_matmul");
  const auto& [a, b, c, offsets, transpose_b, accumulate, bias] = grouped;
  call.require_dims("a", a, 2);
  call.require_dims("b", b, 3);
  call.require_dims("c", c, 2);
  const DType compute = compute_of(call, "a", a);
  const std::int64_t num_rows = a.shape[0], depth = a.shape[1], num_columns = c.shape[1], num_experts = b.shape[0];
  call.in("a", a, {num_rows, depth}, compute);
  call.in("b", b, {num_experts, transpose_b ? num_columns : depth, transpose_b ? depth : num_columns}, compute);
  call.out("c", c, {num_rows, num_columns}, {compute, DType::float32});
  if (!bias.empty()) call.in("bias", bias, {num_experts, num_columns}, compute);
  check_offsets(call, offsets, num_experts, num_rows);
  call.check_memory();
}

void check_grouped_weight_gradient(const GroupedWeightGradient& grouped) {
  Call call("grouped_weight_gradient");
  const auto& [dweight, x, y, offsets] = grouped;
  call.require_dims("dweight", dweight, 3);
  call.require_dims("x", x, 2);
  const DType compute = compute_of(call, "x", x);
  const std::int64_t num_rows = x.shape[0];
  call.in("x", x, {num_rows, dweight.shape[1]}, compute);
  call.in("y", y, {num_rows, dweight.shape[2]}, compute);
  call.out("dweight", dweight, shape_of(dweight), DType::float32);
  check_offsets(call, offsets, dweight.shape[0], num_rows);
  call.check_memory();
}

void check_grouped_bias_gradient(const GroupedBiasGradient& grouped) {
  Call call("grouped_bias_gradient");
  call.require_dims("dbias", grouped.dbias, 2);
  call.require_dims("dy", grouped.dy, 2);
  call.in("dy", grouped.dy, {grouped.dy.shape[0], grouped.dbias.shape[1]}, any_compute);
  call.out("dbias", grouped.dbias, shape_of(grouped.dbias), DType::float32);
  check_offsets(call, grouped.offsets, grouped.dbias.shape[0], grouped.dy.shape[0]);
  call.check_memory();
}

void check_gated_forward(const GatedForward& gated) {
  Call call("gated_forward");
  const auto& [act, gate_up, rule] = gated;
  call.require_dims("act", act, 2);
  const DType compute = compute_of(call, "act", act);
  call.out("act", act, shape_of(act), compute);
  call.in("gate_up", gate_up, {act.shape[0], 2 * act.shape[1]}, compute);
  call.check_memory();
}

void check_gated_backward(const GatedBackward& gated) {
  Call call("gated_backward");
  const auto& [dgate_up, act, dact, gate_up, rule] = gated;
  call.require_dims("dact", dact, 2);
  const DType compute = compute_of(call, "dact", dact);
  call.in("dact", dact, shape_of(dact), compute);
  call.out("act", act, shape_of(dact), compute);
  call.in("gate_up", gate_up, {dact.shape[0], 2 * dact.shape[1]}, compute);
  call.out("dgate_up", dgate_up, {dact.shape[0], 2 * dact.shape[1]}, compute);
  call.may_be("dgate_up", "gate_up");
  call.may_be("act", "dact");
  call.check_memory();
}

}  // namespace sft::ops::checked
