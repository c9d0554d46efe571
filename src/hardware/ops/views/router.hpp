// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pointers and sizes of the ops of sft/ops/calls/router.hpp; see views/tensor.hpp.

#include <cstdint>

#include "sft/ops/calls/router.hpp"

namespace sft::ops {

/// RouterRule with the sizes of a call.
struct RouterView {
  bool is_sigmoid, normalizes;
  float scale;
  std::int64_t num_tokens, num_experts, num_choices, num_groups, chosen_groups;
  const float *logits, *correction;  ///< correction may be null
};

[[nodiscard]] RouterView view_of(const RouterForward& router);
[[nodiscard]] RouterView view_of(const RouterBackward& router);

}  // namespace sft::ops
