// SPDX-License-Identifier: Apache-2.0
#pragma once
// The activations of MLPs: act = f(gate) u(up), or f(up) where there is no gate. Without headers that have inline
// functions, because kernels of every instruction set take them as they are (src/hardware/ops/cpu/kernels.hpp).

#include <cstdint>

namespace sft::ops {

enum class Gate : std::uint8_t {
  silu,       ///< SwiGLU (Shazeer 2020): act = silu(gate) * up
  gelu_tanh,  ///< Gemma: act = gelu(gate) * up by the tanh approximation (Hendrycks & Gimpel 2016)
  /// gpt-oss: act = g sigmoid(alpha g) (u + 1) with g = min(gate, limit), u = up within [-limit, limit]. At a limit
  /// and beyond it the gradient is 0, as that of torch.clamp in PyTorch 2.15.
  clamped_swish,
  relu2,  ///< act = max(gate, 0)^2 up (So et al. 2021, "Primer")
};

struct GateRule {
  Gate gate = Gate::silu;
  float alpha = 1.702F, limit = 7.0F;  ///< of clamped_swish
  bool interleaved = false;  ///< columns of a row are gate, up, gate, up ...; else all of gate, then all of up
  bool alone = false;        ///< there is one product: act = f(product)

  /// Lists the rule as a part of an op (describe.hpp).
  template <class Visitor>
  void describe(Visitor& op) const {
    op.scalar("rule.gate", gate);
    op.scalar("rule.alpha", alpha);
    op.scalar("rule.limit", limit);
    op.scalar("rule.interleaved", interleaved);
    op.scalar("rule.alone", alone);
    op.require(!alone || (!interleaved && gate != Gate::clamped_swish), "rule.alone has no ups");
  }
};

}  // namespace sft::ops
