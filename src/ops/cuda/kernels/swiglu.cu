// SPDX-License-Identifier: Apache-2.0
// SwiGLU (Shazeer 2020): act = silu(gate) * up.
#include "ops/cuda/kernels/kernels.hpp"

#include "ops/cuda/elementwise.cuh"

namespace sft::ops::cuda {
namespace {

/// 1 / (1 + e^-x) to within 4 units of the last place, whose e^-x stays below 2^126, beyond which __fdividef gives 0.
/// An exact quotient takes so many instructions that they, and not memory, would set the time.
__device__ __forceinline__ float sigmoid(float x) {
  const float bounded = x < -87.0f ? -87.0f : x;  // NaN stays
  return __fdividef(1.0f, 1.0f + expf(-bounded));
}

/// Moves 3 T F s bytes.
template <class T, int N>
struct Forward {
  static constexpr int unroll = 2;
  struct Registers {
    float gate[N], up[N];
  };
  Rows<T> act;
  Rows<const T> gate, up;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.gate, gate.at(row, column));
    cuda::load(r.up, up.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float out[N];
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = r.gate[i] * sigmoid(r.gate[i]) * r.up[i];
    cuda::store(act.at(row, column), out);
  }
};

/// With s = sigmoid(gate): dgate = dact up s (1 + gate (1 - s)); dup = dact gate s. Moves 6 T F s bytes.
template <class T, int N>
struct Backward {
  static constexpr int unroll = 1;
  struct Registers {
    float gate[N], up[N], dact[N];
  };
  Rows<T> dgate, dup, act;
  Rows<const T> dact, gate, up;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.gate, gate.at(row, column));
    cuda::load(r.up, up.at(row, column));
    cuda::load(r.dact, dact.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float out[N], dgates[N], dups[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float s = sigmoid(r.gate[i]), silu = r.gate[i] * s;
      out[i] = silu * r.up[i];
      dgates[i] = r.dact[i] * r.up[i] * (s + silu * (1.0f - s));
      dups[i] = r.dact[i] * silu;
    }
    cuda::store(act.at(row, column), out);
    cuda::store(dgate.at(row, column), dgates);
    cuda::store(dup.at(row, column), dups);
  }
};

}  // namespace

void swiglu_forward(View act, ConstView gate_up, cudaStream_t stream) {
  const std::int64_t size = act.columns;
  const ConstView gate = columns_of(gate_up, 0, size), up = columns_of(gate_up, size, size);
  with_type(act.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    by_vectors<vector_size<T>>(
        std::tuple(act, gate, up), true,
        [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& out, const ConstView& gates,
            const ConstView& ups) {
          constexpr int N = decltype(n)::value;
          run_elementwise<N>(
              "swiglu_forward",
              Forward<T, N>{rows_of<T>(out), rows_of<const T>(gates), rows_of<const T>(ups)}, num_vectors,
              per_row, stream);
        });
  });
}

void swiglu_backward(View dgate_up, View act, ConstView dact, ConstView gate_up, cudaStream_t stream) {
  const std::int64_t size = act.columns;
  const ConstView gate = columns_of(gate_up, 0, size), up = columns_of(gate_up, size, size);
  const View dgate = columns_of(dgate_up, 0, size), dup = columns_of(dgate_up, size, size);
  with_type(act.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    by_vectors<vector_size<T>>(
        std::tuple(act, dgate, dup, dact, gate, up), true,
        [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& out, const View& dgates,
            const View& dups, const ConstView& douts, const ConstView& gates, const ConstView& ups) {
          constexpr int N = decltype(n)::value;
          run_elementwise<N>(
              "swiglu_backward",
              Backward<T, N>{rows_of<T>(dgates), rows_of<T>(dups), rows_of<T>(out), rows_of<const T>(douts),
                             rows_of<const T>(gates), rows_of<const T>(ups)},
              num_vectors, per_row, stream);
        });
  });
}

}  // namespace sft::ops::cuda
