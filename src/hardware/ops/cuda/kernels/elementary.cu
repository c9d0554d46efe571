// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/kernels/kernels.hpp"
#include "sft/ops/calls/elementary.hpp"

namespace sft::ops::cuda {
namespace {

/// Moves s bytes an element.
template <class T, int N>
struct Fill {
  static constexpr int unroll = 4;
  struct Registers {};
  Rows<T> x;
  float value;

  __device__ __forceinline__ void load(Registers&, std::int64_t, std::int64_t) const {}
  __device__ __forceinline__ void store(const Registers&, std::int64_t row, std::int64_t column) const {
    float values[N];
#pragma unroll
    for (float& v : values) v = value;
    cuda::store(x.at(row, column), values);
  }
};

/// Moves the bytes of source and destination.
template <class To, class From, int N>
struct Copy {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N];
  };
  Rows<To> to;
  Rows<const From> from;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, from.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::store(to.at(row, column), r.x);
  }
};

/// Moves the bytes of the destination twice, and those of the source.
template <class To, class From, int N>
struct Add {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N], y[N];
  };
  Rows<To> to;
  Rows<const From> from;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, to.at(row, column));
    cuda::load(r.y, from.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float sums[N];
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = r.x[i] + r.y[i];
    cuda::store(to.at(row, column), sums);
  }
};

template <class T, int N>
__device__ __forceinline__ void store_scaled(T* to, const float (&values)[N], float factor) {
  float products[N];
#pragma unroll
  for (int i = 0; i < N; ++i) products[i] = factor * values[i];
  cuda::store(to, products);
}

/// Moves 2 s bytes an element.
template <class T, int N>
struct Scale {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N];
  };
  Rows<T> x;
  float factor;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, x.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    store_scaled(x.at(row, column), r.x, factor);
  }
};

/// Moves 8 bytes an element.
template <int N>
struct DivideByNorm {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N];
  };
  Rows<float> x;
  const double* squares;
  float epsilon;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, x.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    store_scaled(x.at(row, column), r.x, 1.0f / fmaxf(sqrtf(static_cast<float>(*squares)), epsilon));
  }
};

/// Moves 2 s bytes an element; the bias stays in the cache.
template <class T, class B, int N>
struct AddBias {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N];
  };
  Rows<T> x;
  const B* bias;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, x.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float sums[N];
    cuda::load(sums, bias + column);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += r.x[i];
    cuda::store(x.at(row, column), sums);
  }
};

}  // namespace

template <>
void run(const ops::Fill& op, const Context& context) {
  const View x = op.x.is_contiguous() ? flat_view_of(op.x) : view_of(op.x);
  const float value = op.value;
  const cudaStream_t stream = context.stream;
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    by_vectors<vector_size<T>>(
        std::tuple(x), true, [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& part) {
          constexpr int N = decltype(n)::value;
          run_elementwise<N>("fill", Fill<T, N>{rows_of<T>(part), value}, num_vectors, per_row, stream);
        });
  });
}

template <>
void run(const ops::Copy& op, const Context& context) {
  const ViewPair pair = pair_of(op.destination, op.source);
  const View destination = pair.to;
  const ConstView source = pair.from;
  const cudaStream_t stream = context.stream;
  with_type(destination.is_bf16, [&](auto to) {
    with_type(source.is_bf16, [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      by_vectors<vector_size<To, From>>(
          std::tuple(destination, source), true,
          [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& out, const ConstView& in) {
            constexpr int N = decltype(n)::value;
            run_elementwise<N>("copy", Copy<To, From, N>{rows_of<To>(out), rows_of<const From>(in)}, num_vectors,
                               per_row, stream);
          });
    });
  });
}

template <>
void run(const ops::Add& op, const Context& context) {
  const ViewPair pair = pair_of(op.destination, op.source);
  const View destination = pair.to;
  const ConstView source = pair.from;
  const cudaStream_t stream = context.stream;
  with_type(destination.is_bf16, [&](auto to) {
    with_type(source.is_bf16, [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      by_vectors<vector_size<To, From>>(
          std::tuple(destination, source), true,
          [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& out, const ConstView& in) {
            constexpr int N = decltype(n)::value;
            run_elementwise<N>("add", Add<To, From, N>{rows_of<To>(out), rows_of<const From>(in)}, num_vectors, per_row,
                               stream);
          });
    });
  });
}

template <>
void run(const ops::Scale& op, const Context& context) {
  const View x = flat_view_of(op.x);
  const float factor = op.factor;
  const cudaStream_t stream = context.stream;
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    by_vectors<vector_size<T>>(
        std::tuple(x), true, [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& part) {
          constexpr int N = decltype(n)::value;
          run_elementwise<N>("scale", Scale<T, N>{rows_of<T>(part), factor}, num_vectors, per_row, stream);
        });
  });
}

template <>
void run(const ops::DivideByNorm& op, const Context& context) {
  ensure(op.x.dtype == DType::float32, "divide_by_norm: float32 expected");
  const View x = flat_view_of(op.x);
  const double* const squares = doubles_of(op.squares);
  const float epsilon = op.epsilon;
  const cudaStream_t stream = context.stream;
  by_vectors<vector_size<float>>(
      std::tuple(x), true, [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& part) {
        constexpr int N = decltype(n)::value;
        run_elementwise<N>("divide_by_norm", DivideByNorm<N>{rows_of<float>(part), squares, epsilon}, num_vectors,
                           per_row, stream);
      });
}

void add_bias(View x, Weight bias, cudaStream_t stream) {
  if (is_empty(x)) return;
  with_type(x.is_bf16, [&](auto type) {
    with_type(bias.is_bf16, [&](auto bias_type) {
      using T = typename decltype(type)::type;
      using B = typename decltype(bias_type)::type;
      const ConstView bias_row{bias.data, bias.is_bf16, 1, x.columns, x.columns};
      const auto run = [&](auto n) {
        constexpr int N = decltype(n)::value;
        run_elementwise<N>("add_bias", AddBias<T, B, N>{rows_of<T>(x), static_cast<const B*>(bias.data)},
                           x.rows * (x.columns / N), x.columns / N, stream);
      };
      constexpr int vectors = vector_size<T, B>;
      if (has_vectors(x, vectors) && has_vectors(bias_row, vectors)) {
        run(std::integral_constant<int, vectors>{});
      } else {
        run(std::integral_constant<int, 1>{});
      }
    });
  });
}

}  // namespace sft::ops::cuda
