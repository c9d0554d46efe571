// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the ops on experts to the arguments of the kernels, for all backends. Broken contracts
// throw std::logic_error.

#include "ops/expert_arguments.hpp"
#include "ops/tensor_arguments.hpp"
#include "sft/ops/call.hpp"

namespace sft::ops {

template <class Memory>
[[nodiscard]] auto* int32s_of(const BasicTensor<Memory>& x) {
  SFT_ENSURE(x.dtype == DType::int32 && x.is_contiguous(), "ops: contiguous int32 expected");
  return x.template as<std::int32_t>();
}

[[nodiscard]] inline const float* weights_of(const ConstTensor& weights) {
  return weights.data == nullptr ? nullptr : floats_of(weights);
}

[[nodiscard]] inline RouterArguments router_arguments(const RouterRule& rule, const ConstTensor& logits,
                                                      const ConstTensor& correction, const ConstTensor& experts) {
  const std::int64_t num_experts = logits.shape[1], num_choices = experts.shape[1];
  SFT_ENSURE(num_experts <= max_experts && num_choices <= max_expert_choices, "ops: a router has no more experts");
  SFT_ENSURE(correction.data == nullptr || rule.score == RouterScore::sigmoid, "ops: sigmoid scores are corrected");
  SFT_ENSURE(rule.num_groups > 0 && num_experts % rule.num_groups == 0, "ops: groups of experts have one size");
  SFT_ENSURE(rule.chosen_groups > 0 && rule.chosen_groups <= rule.num_groups, "ops: there are as many groups");
  SFT_ENSURE(rule.num_groups <= max_expert_choices, "ops: a router has no more groups");
  SFT_ENSURE(rule.num_groups == 1 || num_experts / rule.num_groups > 1, "ops: a group has two experts");
  SFT_ENSURE(num_choices <= num_experts / rule.num_groups * rule.chosen_groups, "ops: there are as many experts");
  return {.is_sigmoid = rule.score == RouterScore::sigmoid,
          .normalizes = rule.normalize,
          .scale = rule.scale,
          .num_tokens = logits.shape[0],
          .num_experts = num_experts,
          .num_choices = num_choices,
          .num_groups = rule.num_groups,
          .chosen_groups = rule.chosen_groups,
          .logits = floats_of(logits),
          .correction = weights_of(correction)};
}

[[nodiscard]] inline RouterSumsArguments arguments_of(const RouterSums& sums) {
  return {.logits = floats_of(sums.logits),
          .expert_counts = int32s_of(sums.expert_counts),
          .counts = sums.counts.as<double>(),
          .probabilities = sums.probabilities.as<double>(),
          .num_tokens = sums.logits.shape[0],
          .num_experts = sums.logits.shape[1]};
}

[[nodiscard]] inline RouterSumsBackwardArguments arguments_of(const RouterSumsBackward& sums) {
  return {.dlogits = floats_of(sums.dlogits),
          .logits = floats_of(sums.logits),
          .counts = sums.counts.as<double>(),
          .factor = sums.factor,
          .num_tokens = sums.logits.shape[0],
          .num_experts = sums.logits.shape[1]};
}

[[nodiscard]] inline ExpertOrderArguments arguments_of(const ExpertOrder& order) {
  const std::int64_t num_choices = order.experts.num_elements(), num_experts = order.counts.shape[0],
                     num_rows = order.choices.shape[0], alignment = order.alignment;
  SFT_ENSURE(alignment > 0 && (alignment & (alignment - 1)) == 0, "ops: experts are aligned to a power of two");
  SFT_ENSURE(num_rows >= num_choices + num_experts * (alignment - 1), "ops: every choice has a row");
  SFT_ENSURE(num_experts > 0 && num_experts <= max_experts, "ops: there are no more experts");
  SFT_ENSURE(num_choices <= max_ordered_choices, "ops: there are no more choices");
  return {.experts = int32s_of(order.experts),
          .counts = int32s_of(order.counts),
          .offsets = int32s_of(order.offsets),
          .choices = int32s_of(order.choices),
          .rows = int32s_of(order.rows),
          .num_choices = num_choices,
          .num_rows = num_rows,
          .num_experts = num_experts,
          .alignment = alignment};
}

[[nodiscard]] inline GatherTokensArguments arguments_of(const GatherTokens& gather) {
  SFT_ENSURE(gather.num_choices > 0, "ops: a token has choices");
  return {.out = view_of(gather.out),
          .in = view_of(gather.in),
          .choices = int32s_of(gather.choices),
          .weights = weights_of(gather.weights),
          .num_choices = gather.num_choices};
}

[[nodiscard]] inline CombineRowsArguments arguments_of(const CombineRows& combine) {
  return {.out = view_of(combine.out),
          .in = view_of(combine.in),
          .rows = int32s_of(combine.rows),
          .weights = weights_of(combine.weights),
          .num_choices = combine.rows.shape[1],
          .accumulates = combine.accumulate};
}

[[nodiscard]] inline CombineWeightsArguments arguments_of(const CombineWeightsBackward& combine) {
  return {.dweights = floats_of(combine.dweights),
          .dout = view_of(combine.dout),
          .in = view_of(combine.in),
          .rows = int32s_of(combine.rows),
          .num_choices = combine.rows.shape[1]};
}

/// The product of expert e.
[[nodiscard]] inline Matmul product_of(const GroupedMatmul& grouped, std::int64_t e) {
  const std::int64_t begin = grouped.offsets[e], count = grouped.offsets[e + 1] - begin;
  const ConstTensor& b = grouped.b;
  Matmul product{.a = grouped.a.rows(begin, count),
                 .b = b.rows(e, 1).view({b.shape[1], b.shape[2]}),
                 .c = grouped.c.rows(begin, count),
                 .transpose_b = grouped.transpose_b,
                 .accumulate = grouped.accumulate};
  if (!grouped.bias.empty()) product.bias = grouped.bias.rows(e, 1).view({grouped.bias.shape[1]});
  return product;
}

[[nodiscard]] inline Matmul product_of(const GroupedWeightGradient& grouped, std::int64_t e) {
  const std::int64_t begin = grouped.offsets[e], count = grouped.offsets[e + 1] - begin;
  const Tensor& c = grouped.dweight;
  return {.a = grouped.x.rows(begin, count),
          .b = grouped.y.rows(begin, count),
          .c = c.rows(e, 1).view({c.shape[1], c.shape[2]}),
          .transpose_a = true,
          .accumulate = true};
}

/// The gradient of the bias of expert e.
[[nodiscard]] inline BiasBackward bias_gradient_of(const GroupedBiasGradient& grouped, std::int64_t e) {
  const std::int64_t begin = grouped.offsets[e], count = grouped.offsets[e + 1] - begin;
  return {grouped.dbias.rows(e, 1).view({grouped.dbias.shape[1]}), grouped.dy.rows(begin, count)};
}

}  // namespace sft::ops
