// SPDX-License-Identifier: Apache-2.0
// Gated activations: act = g sigmoid(z) u' with g, z and u' by the rule of the gate.

#include "sft/ops/calls/gated.hpp"
#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/run.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

struct Silu {
  explicit Silu(const GateRule&) {}

  float z_of(float g) const { return g; }
  float slope_of_z(float) const { return 1.0f; }
  float gate_of(float gate) const { return gate; }
  float up_of(float up) const { return up; }
  bool has_gate_gradient(float) const { return true; }
  bool has_up_gradient(float) const { return true; }
};

/// gelu(x) = x / 2 (1 + tanh(y)) = x sigmoid(2 y), y = sqrt(2 / pi) (x + 0.044715 x^3).
struct Gelu {
  static constexpr float twice_root = 1.5957691216057308f, cubic = 0.044715f;
  explicit Gelu(const GateRule&) {}

  float z_of(float g) const { return twice_root * (g + cubic * g * g * g); }
  float slope_of_z(float g) const { return twice_root * (1.0f + 3.0f * cubic * g * g); }
  float gate_of(float gate) const { return gate; }
  float up_of(float up) const { return up; }
  bool has_gate_gradient(float) const { return true; }
  bool has_up_gradient(float) const { return true; }
};

struct ClampedSwish {
  float alpha, limit;
  explicit ClampedSwish(const GateRule& rule) : alpha(rule.alpha), limit(rule.limit) {}

  float z_of(float g) const { return alpha * g; }
  float slope_of_z(float) const { return alpha; }
  float gate_of(float gate) const { return gate > limit ? limit : gate; }
  float up_of(float up) const { return (up > limit ? limit : up < -limit ? -limit : up) + 1.0f; }
  bool has_gate_gradient(float gate) const { return !(gate >= limit); }
  bool has_up_gradient(float up) const { return !(up >= limit) && !(up <= -limit); }
};

// Where gate and up of column c of act lie in a row: the distance of neighbours is a constant, so that loads of them
// are vectors where they follow each other.
struct InTurn {
  static constexpr std::int64_t step = 2;
  std::int64_t up = 1;
};
struct InHalves {
  static constexpr std::int64_t step = 1;
  std::int64_t up;
};

template <class Rule, class Columns>
void forward(const Rule rule, const Columns columns, View act, ConstView gate_up) {
  with_type(act, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (act.rows * act.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < act.rows; ++t) {
      const T* in = row<T>(gate_up, t);
      T* out = row<T>(act, t);
#pragma omp simd
      for (std::int64_t c = 0; c < act.columns; ++c) {
        const float g = rule.gate_of(load(in[c * columns.step])),
                    u = rule.up_of(load(in[c * columns.step + columns.up]));
        store(out[c], g * sigmoid_of(rule.z_of(g)) * u);
      }
    }
  });
}

/// With s = sigmoid(z): dgate = dact u (s + g s (1 - s) dz/dg); dup = dact g s.
template <class Rule, class Columns>
void backward(const Rule rule, const Columns columns, View dgate_up, View act, ConstView dact, ConstView gate_up) {
  with_type(act, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (act.rows * act.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < act.rows; ++t) {
      const T* in = row<T>(gate_up, t);
      const T* dout = row<T>(dact, t);
      T* out = row<T>(act, t);
      T* din = row<T>(dgate_up, t);
#pragma omp simd
      for (std::int64_t c = 0; c < act.columns; ++c) {
        const std::int64_t at = c * columns.step;
        const float gate = load(in[at]), up = load(in[at + columns.up]), d = load(dout[c]);
        const float g = rule.gate_of(gate), u = rule.up_of(up);
        const float s = sigmoid_of(rule.z_of(g)), swish = g * s;
        store(out[c], swish * u);
        const float dgate = d * u * (s + swish * (1.0f - s) * rule.slope_of_z(g)), dup = d * swish;
        store(din[at], rule.has_gate_gradient(gate) ? dgate : 0.0f);
        store(din[at + columns.up], rule.has_up_gradient(up) ? dup : 0.0f);
      }
    }
  });
}

/// Calls f(rule, columns) with types for the rule and for where `size` gates and ups lie in a row.
template <class F>
void with_types(const GateRule& rule, std::int64_t size, F f) {
  const auto with_columns = [&](auto gate) {
    if (rule.interleaved) {
      f(gate, InTurn{});
    } else {
      f(gate, InHalves{size});
    }
  };
  switch (rule.gate) {
    case Gate::silu:
      return with_columns(Silu(rule));
    case Gate::gelu_tanh:
      return with_columns(Gelu(rule));
    case Gate::clamped_swish:
      return with_columns(ClampedSwish(rule));
  }
}

}  // namespace

template <>
void run(const GatedForward& op, Scratch) {
  const View act = view_of(op.act);
  const ConstView gate_up = view_of(op.gate_up);
  with_types(op.rule, act.columns, [&](auto gate, auto columns) { forward(gate, columns, act, gate_up); });
}

template <>
void run(const GatedBackward& op, Scratch) {
  const View dgate_up = view_of(op.dgate_up), act = view_of(op.act);
  const ConstView dact = view_of(op.dact), gate_up = view_of(op.gate_up);
  with_types(op.rule, act.columns,
             [&](auto gate, auto columns) { backward(gate, columns, dgate_up, act, dact, gate_up); });
}

}  // namespace sft::ops::cpu::SFT_ISA
