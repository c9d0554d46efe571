// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gated activations of MLPs. gate_up and dgate_up (T, 2F) hold gate, then up, in every row unless they are interleaved.

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// SwiGLU (Shazeer 2020): act = silu(gate) * up.
struct SwigluForward {
  static constexpr const char* name = "swiglu_forward";
  static constexpr Pass pass = Pass::mlp_forward;
  Tensor act;           ///< (T, F) compute dtype
  ConstTensor gate_up;  ///< (T, 2F) compute dtype

  template <class Visitor>
  void describe(Visitor& op) const {
    op.out("act", act, "T F", Types::compute);
    op.in("gate_up", gate_up, "T 2F", Types::compute);
  }
};

/// act is recomputed on the way.
struct SwigluBackward {
  static constexpr const char* name = "swiglu_backward";
  static constexpr Pass pass = Pass::mlp_backward;
  Tensor dgate_up;      ///< (T, 2F) compute dtype, may be gate_up
  Tensor act;           ///< (T, F) compute dtype, may be dact
  ConstTensor dact;     ///< (T, F) compute dtype
  ConstTensor gate_up;  ///< (T, 2F) compute dtype

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("dact", dact, "T F", Types::compute);
    op.out("act", act, "T F", Types::compute);
    op.in("gate_up", gate_up, "T 2F", Types::compute);
    op.out("dgate_up", dgate_up, "T 2F", Types::compute);
    op.may_be("dgate_up", "gate_up");
    op.may_be("act", "dact");
  }
};

/// Gated activations besides SwiGLU.
enum class Gate : std::uint8_t {
  gelu_tanh,  ///< Gemma: act = gelu(gate) * up by the tanh approximation (Hendrycks & Gimpel 2016)
  /// gpt-oss: act = g sigmoid(alpha g) (u + 1) with g = min(gate, limit), u = up within [-limit, limit]. At a limit
  /// and beyond it the gradient is 0, as that of torch.clamp in PyTorch 2.15.
  clamped_swish,
};

struct GateRule {
  Gate gate;
  float alpha = 1.702F, limit = 7.0F;  ///< of clamped_swish
  bool interleaved = false;  ///< columns of a row are gate, up, gate, up ...; else all of gate, then all of up

  /// As a part of an op.
  template <class Visitor>
  void describe(Visitor& op) const {
    op.scalar("rule.gate", gate);
    op.scalar("rule.alpha", alpha);
    op.scalar("rule.limit", limit);
    op.scalar("rule.interleaved", interleaved);
  }
};

struct GatedForward {
  static constexpr const char* name = "gated_forward";
  static constexpr Pass pass = Pass::mlp_forward;
  Tensor act;           ///< (T, F) compute dtype
  ConstTensor gate_up;  ///< (T, 2F) compute dtype
  GateRule rule;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.out("act", act, "T F", Types::compute);
    op.in("gate_up", gate_up, "T 2F", Types::compute);
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
  GateRule rule;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("dact", dact, "T F", Types::compute);
    op.out("act", act, "T F", Types::compute);
    op.in("gate_up", gate_up, "T 2F", Types::compute);
    op.out("dgate_up", dgate_up, "T 2F", Types::compute);
    rule.describe(op);
    op.may_be("dgate_up", "gate_up");
    op.may_be("act", "dact");
  }
};

}  // namespace sft::ops
