// SPDX-License-Identifier: Apache-2.0
// SwiGLU (Shazeer 2020): act = silu(gate) * up.

#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/table.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

void swiglu_forward(View act, ConstView gate_up) {
  const std::int64_t size = act.columns;
  with_type(act, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (act.rows * size >= min_parallel_elements)
    for (std::int64_t t = 0; t < act.rows; ++t) {
      const T* gate = row<T>(gate_up, t);
      T* out = row<T>(act, t);
#pragma omp simd
      for (std::int64_t c = 0; c < size; ++c) {
        const float g = load(gate[c]);
        store(out[c], g * sigmoid_of(g) * load(gate[c + size]));
      }
    }
  });
}

/// With s = sigmoid(gate): dgate = dact up s (1 + gate (1 - s)); dup = dact gate s.
void swiglu_backward(View dgate_up, View act, ConstView dact, ConstView gate_up) {
  const std::int64_t size = act.columns;
  with_type(act, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (act.rows * size >= min_parallel_elements)
    for (std::int64_t t = 0; t < act.rows; ++t) {
      const T* gate = row<T>(gate_up, t);
      const T* dout = row<T>(dact, t);
      T* out = row<T>(act, t);
      T* dgate = row<T>(dgate_up, t);
#pragma omp simd
      for (std::int64_t c = 0; c < size; ++c) {
        const float g = load(gate[c]), u = load(gate[c + size]), d = load(dout[c]);
        const float s = sigmoid_of(g);
        const float silu = g * s;
        store(out[c], silu * u);
        store(dgate[c], d * u * (s + silu * (1.0f - s)));
        store(dgate[c + size], d * silu);
      }
    }
  });
}

}  // namespace

void enter_swiglu(Kernels& table) {
  table.swiglu_forward = swiglu_forward;
  table.swiglu_backward = swiglu_backward;
}

}  // namespace sft::ops::cpu::SFT_ISA
