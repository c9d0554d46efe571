// SPDX-License-Identifier: Apache-2.0
// Activations of MLPs: act = f(g) u', with f, g and u' by the rule.

#include "sft/ops/calls/gated.hpp"
#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/run.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// f(g), and its derivative.
struct ValueAndSlope {
  float value, slope;
};

/// f(g) = g sigmoid(z): with s = sigmoid(z) the derivative is s + g s (1 - s) dz/dg.
inline ValueAndSlope swish_of(float g, float z, float slope_of_z) {
  const float s = sigmoid_of(z), swish = g * s;
  return {swish, s + swish * (1.0f - s) * slope_of_z};
}

/// Gates and ups that pass as they are.
struct Unclamped {
  float gate_of(float gate) const { return gate; }
  float up_of(float up) const { return up; }
  bool has_gate_gradient(float) const { return true; }
  bool has_up_gradient(float) const { return true; }
};

struct Silu : Unclamped {
  explicit Silu(const GateRule&) {}
  ValueAndSlope of(float g) const { return swish_of(g, g, 1.0f); }
};

/// gelu(x) = x / 2 (1 + tanh(y)) = x sigmoid(2 y), y = sqrt(2 / pi) (x + 0.044715 x^3).
struct Gelu : Unclamped {
  static constexpr float twice_root = 1.5957691216057308f, cubic = 0.044715f;
  explicit Gelu(const GateRule&) {}
  ValueAndSlope of(float g) const {
    return swish_of(g, twice_root * (g + cubic * g * g * g), twice_root * (1.0f + 3.0f * cubic * g * g));
  }
};

struct Relu2 : Unclamped {
  explicit Relu2(const GateRule&) {}
  ValueAndSlope of(float g) const {
    const float positive = g < 0.0f ? 0.0f : g;  // NaN stays
    return {positive * positive, 2.0f * positive};
  }
};

struct ClampedSwish {
  float alpha, limit;
  explicit ClampedSwish(const GateRule& rule) : alpha(rule.alpha), limit(rule.limit) {}

  ValueAndSlope of(float g) const { return swish_of(g, alpha * g, alpha); }
  float gate_of(float gate) const { return gate > limit ? limit : gate; }
  float up_of(float up) const { return (up > limit ? limit : up < -limit ? -limit : up) + 1.0f; }
  bool has_gate_gradient(float gate) const { return !(gate >= limit); }
  bool has_up_gradient(float up) const { return !(up >= limit) && !(up <= -limit); }
};

// Where gate and up of column c of act lie in a row: the distance of neighbours is a constant, so that loads of them
// are vectors where they follow each other.
struct InTurn {
  static constexpr std::int64_t step = 2;
  static constexpr bool has_up = true;
  std::int64_t up = 1;
};
struct InHalves {
  static constexpr std::int64_t step = 1;
  static constexpr bool has_up = true;
  std::int64_t up;
};
struct Alone {
  static constexpr std::int64_t step = 1;
  static constexpr bool has_up = false;
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
        const std::int64_t at = c * columns.step;
        const float value = rule.of(rule.gate_of(load(in[at]))).value;
        if constexpr (Columns::has_up) {
          store(out[c], value * rule.up_of(load(in[at + columns.up])));
        } else {
          store(out[c], value);
        }
      }
    }
  });
}

/// dgate = dact u f'(g); dup = dact f(g).
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
        const float gate = load(in[at]), d = load(dout[c]);
        const ValueAndSlope f = rule.of(rule.gate_of(gate));
        if constexpr (Columns::has_up) {
          const float up = load(in[at + columns.up]), u = rule.up_of(up);
          store(out[c], f.value * u);
          store(din[at], rule.has_gate_gradient(gate) ? d * u * f.slope : 0.0f);
          store(din[at + columns.up], rule.has_up_gradient(up) ? d * f.value : 0.0f);
        } else {
          store(out[c], f.value);
          store(din[at], d * f.slope);
        }
      }
    }
  });
}

/// Calls f(rule, columns) with types for the rule and for where `size` gates and ups lie in a row.
template <class F>
void with_types(const GateRule& rule, std::int64_t size, F f) {
  const auto with_columns = [&](auto gate) {
    if (rule.alone) {
      f(gate, Alone{});
    } else if (rule.interleaved) {
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
    case Gate::relu2:
      return with_columns(Relu2(rule));
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
