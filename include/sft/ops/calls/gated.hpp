// SPDX-License-Identifier: Apache-2.0
#pragma once
// Activations of MLPs. gate_up and dgate_up (T, 2F) hold gate, then up, in every row unless the rule says that they are
// interleaved; with GateRule::alone they are (T, F), one product.

#include "sft/ops/describe.hpp"
#include "sft/ops/gate.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

struct GatedForward {
  static constexpr const char* name = "gated_forward";
  static constexpr Pass pass = Pass::mlp_forward;
  Tensor act;           ///< (T, F) compute dtype
  ConstTensor gate_up;  ///< (T, 2F) compute dtype
  GateRule rule = {};

  template <class Visitor>
  void describe(Visitor& op) const {
    op.out("act", act, "T F", Types::compute);
    op.in("gate_up", gate_up, rule.alone ? "T F" : "T 2F", Types::compute);
    rule.describe(op);
  }
};

/// act is recomputed on the way.
struct GatedBackward {
  static constexpr const char* name = "gated_backward";
  static constexpr Pass pass = Pass::mlp_backward;
  Tensor dgate_up;      ///< (T, 2F) compute dtype, may be gate_up
  Tensor act;           ///< (T, F) compute dtype, may be dact
  ConstTensor dact;     ///< (T, F) compute dtype
  ConstTensor gate_up;  ///< (T, 2F) compute dtype
  GateRule rule = {};

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("dact", dact, "T F", Types::compute);
    op.out("act", act, "T F", Types::compute);
    op.in("gate_up", gate_up, rule.alone ? "T F" : "T 2F", Types::compute);
    op.out("dgate_up", dgate_up, rule.alone ? "T F" : "T 2F", Types::compute);
    rule.describe(op);
    op.may_be("dgate_up", "gate_up");
    op.may_be("act", "dact");
  }
};

}  // namespace sft::ops
