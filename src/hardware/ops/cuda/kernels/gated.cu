// SPDX-License-Identifier: Apache-2.0
// Activations of MLPs: act = f(g) u', with f, g and u' by the rule.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "sft/ops/calls/gated.hpp"

namespace sft::ops::cuda {
namespace {

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// f(g), and its derivative.
struct ValueAndSlope {
  float value, slope;
};

/// f(g) = g s with s = sigmoid(z): the derivative is s + g s (1 - s) dz/dg.
__device__ __forceinline__ ValueAndSlope swish_of(float g, float s, float slope_of_z) {
  const float swish = g * s;
  return {swish, s + swish * (1.0f - s) * slope_of_z};
}

/// Gates and ups that pass as they are.
struct Unclamped {
  __device__ __forceinline__ float gate_of(float gate) const { return gate; }
  __device__ __forceinline__ float up_of(float up) const { return up; }
  __device__ __forceinline__ bool has_gate_gradient(float) const { return true; }
  __device__ __forceinline__ bool has_up_gradient(float) const { return true; }
};

struct Silu : Unclamped {
  /// To within 4 units of the last place: e^-x stays below 2^126, beyond which __fdividef gives 0. An exact quotient
  /// takes so many instructions that they, and not memory, would set the time.
  __device__ __forceinline__ ValueAndSlope of(float g) const {
    const float bounded = g < -87.0f ? -87.0f : g;  // NaN stays
    return swish_of(g, __fdividef(1.0f, 1.0f + expf(-bounded)), 1.0f);
  }
};

/// gelu(x) = x / 2 (1 + tanh(y)) = x sigmoid(2 y), y = sqrt(2 / pi) (x + 0.044715 x^3).
struct Gelu : Unclamped {
  static constexpr float twice_root = 1.5957691216057308f, cubic = 0.044715f;

  __device__ __forceinline__ ValueAndSlope of(float g) const {
    return swish_of(g, sigmoid(twice_root * (g + cubic * g * g * g)), twice_root * (1.0f + 3.0f * cubic * g * g));
  }
};

struct Relu2 : Unclamped {
  __device__ __forceinline__ ValueAndSlope of(float g) const {
    const float positive = g < 0.0f ? 0.0f : g;  // NaN stays
    return {positive * positive, 2.0f * positive};
  }
};

struct ClampedSwish {
  float alpha, limit;

  __device__ __forceinline__ ValueAndSlope of(float g) const { return swish_of(g, sigmoid(alpha * g), alpha); }
  __device__ __forceinline__ float gate_of(float gate) const { return gate > limit ? limit : gate; }
  __device__ __forceinline__ float up_of(float up) const {
    return (up > limit ? limit : up < -limit ? -limit : up) + 1.0f;
  }
  __device__ __forceinline__ bool has_gate_gradient(float gate) const { return !(gate >= limit); }
  __device__ __forceinline__ bool has_up_gradient(float up) const { return !(up >= limit) && !(up <= -limit); }
};

/// Where gates and ups lie in a row: one after the other, or in turn, or there are no ups.
constexpr int halves = 0, in_turn = 1, alone = 2;

/// Gates and ups of N neighbours of act.
template <class T, int N>
struct Pair {
  float gate[N], up[N];
};

/// Rows of gates and ups.
template <class T, int N, int columns>
struct PairRows {
  Rows<T> rows;
  std::int64_t size;  ///< columns of act

  template <class Element>
  __device__ __forceinline__ void load(Pair<Element, N>& pair, std::int64_t row, std::int64_t column) const {
    if constexpr (columns == in_turn) {
      float x[2][N];
      cuda::load(x[0], rows.at(row, 2 * column));
      cuda::load(x[1], rows.at(row, 2 * column + N));
#pragma unroll
      for (int i = 0; i < N; ++i) {
        pair.gate[i] = x[2 * i / N][2 * i % N];
        pair.up[i] = x[(2 * i + 1) / N][(2 * i + 1) % N];
      }
    } else {
      cuda::load(pair.gate, rows.at(row, column));
      if constexpr (columns == halves) cuda::load(pair.up, rows.at(row, column + size));
    }
  }
  template <class Element>
  __device__ __forceinline__ void store(const Pair<Element, N>& pair, std::int64_t row, std::int64_t column) const {
    if constexpr (columns == in_turn) {
      float x[2][N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        x[2 * i / N][2 * i % N] = pair.gate[i];
        x[(2 * i + 1) / N][(2 * i + 1) % N] = pair.up[i];
      }
      cuda::store(rows.at(row, 2 * column), x[0]);
      cuda::store(rows.at(row, 2 * column + N), x[1]);
    } else {
      cuda::store(rows.at(row, column), pair.gate);
      if constexpr (columns == halves) cuda::store(rows.at(row, column + size), pair.up);
    }
  }
};

/// Moves 3 T F s bytes, or 2 without ups.
template <class Rule, class T, int N, int columns>
struct Forward {
  static constexpr int unroll = 2;
  using Registers = Pair<T, N>;
  Rule rule;
  Rows<T> act;
  PairRows<const T, N, columns> in;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    in.load(r, row, column);
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float out[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out[i] = rule.of(rule.gate_of(r.gate[i])).value;
      if constexpr (columns != alone) out[i] *= rule.up_of(r.up[i]);
    }
    cuda::store(act.at(row, column), out);
  }
};

/// dgate = dact u f'(g); dup = dact f(g). Moves 6 T F s bytes, or 4 without ups.
template <class Rule, class T, int N, int columns>
struct Backward {
  static constexpr int unroll = 1;
  struct Registers : Pair<T, N> {
    float dact[N];
  };
  Rule rule;
  PairRows<T, N, columns> din;
  Rows<T> act;
  Rows<const T> dact;
  PairRows<const T, N, columns> in;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    in.load(static_cast<Pair<T, N>&>(r), row, column);
    cuda::load(r.dact, dact.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float out[N];
    Pair<T, N> gradient;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const ValueAndSlope f = rule.of(rule.gate_of(r.gate[i]));
      if constexpr (columns == alone) {
        out[i] = f.value;
        gradient.gate[i] = r.dact[i] * f.slope;
      } else {
        const float u = rule.up_of(r.up[i]);
        out[i] = f.value * u;
        gradient.gate[i] = rule.has_gate_gradient(r.gate[i]) ? r.dact[i] * u * f.slope : 0.0f;
        gradient.up[i] = rule.has_up_gradient(r.up[i]) ? r.dact[i] * f.value : 0.0f;
      }
    }
    cuda::store(act.at(row, column), out);
    din.store(gradient, row, column);
  }
};

/// Calls f(rule, dtype, neighbours, columns) with constants for all of them.
template <class F>
void with_constants(const GateRule& rule, bool is_bf16, bool has_vectors, F f) {
  with_type(is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto with_rule = [&](auto gate) {
      const auto with_size = [&](auto n) {
        if (rule.alone) {
          f(gate, type, n, std::integral_constant<int, alone>{});
        } else if (rule.interleaved) {
          f(gate, type, n, std::integral_constant<int, in_turn>{});
        } else {
          f(gate, type, n, std::integral_constant<int, halves>{});
        }
      };
      if (has_vectors) {
        with_size(std::integral_constant<int, vector_size<T>>{});
      } else {
        with_size(std::integral_constant<int, 1>{});
      }
    };
    switch (rule.gate) {
      case Gate::silu:
        return with_rule(Silu{});
      case Gate::gelu_tanh:
        return with_rule(Gelu{});
      case Gate::clamped_swish:
        return with_rule(ClampedSwish{rule.alpha, rule.limit});
      case Gate::relu2:
        return with_rule(Relu2{});
    }
  });
}

/// Whether rows of `pairs` and their halves, if the rule has these, consist of whole vectors.
template <class Memory>
bool has_pair_vectors(const GateRule& rule, const BasicView<Memory>& pairs) {
  const int n = pairs.is_bf16 ? vector_size<Bf16> : vector_size<float>;
  return has_vectors(pairs, n) && (rule.alone || pairs.columns / 2 % n == 0);
}

template <class Memory>
bool has_row_vectors(const BasicView<Memory>& x) {
  return has_vectors(x, x.is_bf16 ? vector_size<Bf16> : vector_size<float>);
}

}  // namespace

template <>
void run(const ops::GatedForward& op, const Context& context) {
  const View act = view_of(op.act);
  const ConstView gate_up = view_of(op.gate_up);
  const cudaStream_t stream = context.stream;
  if (is_empty(act)) return;
  with_constants(op.rule, act.is_bf16, has_row_vectors(act) && has_pair_vectors(op.rule, gate_up),
                 [&](auto gate, auto type, auto n, auto columns) {
                   using T = typename decltype(type)::type;
                   constexpr int N = decltype(n)::value;
                   using Op = Forward<decltype(gate), T, N, decltype(columns)::value>;
                   run_elementwise<N>("gated_forward",
                                      Op{gate, rows_of<T>(act), {rows_of<const T>(gate_up), act.columns}},
                                      act.rows * (act.columns / N), act.columns / N, stream);
                 });
}

template <>
void run(const ops::GatedBackward& op, const Context& context) {
  const View dgate_up = view_of(op.dgate_up), act = view_of(op.act);
  const ConstView dact = view_of(op.dact), gate_up = view_of(op.gate_up);
  const cudaStream_t stream = context.stream;
  if (is_empty(act)) return;
  const bool is_vectors = has_row_vectors(act) && has_row_vectors(dact) && has_pair_vectors(op.rule, gate_up) &&
                          has_pair_vectors(op.rule, dgate_up);
  with_constants(op.rule, act.is_bf16, is_vectors, [&](auto gate, auto type, auto n, auto columns) {
    using T = typename decltype(type)::type;
    constexpr int N = decltype(n)::value;
    using Op = Backward<decltype(gate), T, N, decltype(columns)::value>;
    run_elementwise<N>("gated_backward",
                       Op{gate,
                          {rows_of<T>(dgate_up), act.columns},
                          rows_of<T>(act),
                          rows_of<const T>(dact),
                          {rows_of<const T>(gate_up), act.columns}},
                       act.rows * (act.columns / N), act.columns / N, stream);
  });
}

}  // namespace sft::ops::cuda
