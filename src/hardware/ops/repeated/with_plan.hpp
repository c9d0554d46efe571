// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls of attention with the plan that the other backend made.

#include "sft/ops/backend.hpp"

namespace sft::ops {

/// The same call with `plan`, which outlives it.
[[nodiscard]] inline AttentionForward with_plan(const AttentionForward& attention, const AttentionPlan& plan) {
  return {.q = attention.q,
          .k = attention.k,
          .v = attention.v,
          .out = attention.out,
          .lse = attention.lse,
          .scale = attention.scale,
          .plan = plan,
          .merge = attention.merge,
          .softcap = attention.softcap,
          .sinks = attention.sinks};
}

[[nodiscard]] inline AttentionBackward with_plan(const AttentionBackward& attention, const AttentionPlan& plan) {
  return {.q = attention.q,
          .k = attention.k,
          .v = attention.v,
          .dout = attention.dout,
          .lse = attention.lse,
          .delta = attention.delta,
          .dq = attention.dq,
          .dk = attention.dk,
          .dv = attention.dv,
          .scale = attention.scale,
          .plan = plan,
          .accumulate_dq = attention.accumulate_dq,
          .accumulate_dkv = attention.accumulate_dkv,
          .softcap = attention.softcap,
          .out = attention.out};
}

}  // namespace sft::ops
