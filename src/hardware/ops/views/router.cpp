// SPDX-License-Identifier: Apache-2.0
#include "ops/views/router.hpp"

#include "ops/views/tensor.hpp"

namespace sft::ops {
namespace {

RouterView view(const RouterRule& rule, const ConstTensor& logits, const ConstTensor& experts) {
  return {.is_sigmoid = rule.score == RouterScore::sigmoid,
          .normalizes = rule.normalize,
          .scale = rule.scale,
          .num_tokens = logits.shape[0],
          .num_experts = logits.shape[1],
          .num_choices = experts.shape[1],
          .num_groups = rule.num_groups,
          .chosen_groups = rule.chosen_groups,
          .logits = floats_of(logits),
          .correction = nullptr};
}

}  // namespace

RouterView view_of(const RouterForward& router) {
  RouterView result = view(router.rule, router.logits, router.experts);
  result.correction = floats_of(router.correction);
  return result;
}

RouterView view_of(const RouterBackward& router) { return view(router.rule, router.logits, router.experts); }

}  // namespace sft::ops
