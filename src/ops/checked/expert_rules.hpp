// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of the ops of sft/ops/experts.hpp. A rule that is broken is a std::logic_error, as in call.hpp.

#include "sft/ops/experts.hpp"

namespace sft::ops::checked {

void check_router_forward(const RouterForward& router);
void check_router_backward(const RouterBackward& router);
void check_router_sums(const RouterSums& sums);
void check_router_sums_backward(const RouterSumsBackward& sums);
void check_expert_order(const ExpertOrder& order);
void check_gather_tokens(const GatherTokens& gather);
void check_combine_rows(const CombineRows& combine);
void check_combine_weights_backward(const CombineWeightsBackward& combine);
void check_grouped_matmul(const GroupedMatmul& grouped);
void check_grouped_weight_gradient(const GroupedWeightGradient& grouped);
void check_grouped_bias_gradient(const GroupedBiasGradient& grouped);
void check_gated_forward(const GatedForward& gated);
void check_gated_backward(const GatedBackward& gated);

}  // namespace sft::ops::checked
