// SPDX-License-Identifier: Apache-2.0
// Random numbers by counters (ops/random_bits.hpp), each of which gives four; normal ones through the transform of Box
// and Muller (1958). A thread draws whole counters where its elements begin with one.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/random_bits.hpp"
#include "ops/sine_cosine.hpp"
#include "sft/ops/calls/dropout.hpp"
#include "sft/ops/calls/elementary.hpp"

namespace sft::ops::cuda {
namespace {

struct Four {
  float numbers[4];
};

/// Two independent normal numbers from 24 bits of each of two words.
__device__ __forceinline__ void box_muller(std::uint32_t a, std::uint32_t b, float& first, float& second) {
  box_muller_pair(sqrtf(-2.0f * logf(box_muller_uniform(a))), b, first, second);
}

/// Standard normal numbers.
struct Normal {
  static __device__ __forceinline__ Four of(const PhiloxWords& words) {
    Four four;
    box_muller(words.a, words.b, four.numbers[0], four.numbers[1]);
    box_muller(words.c, words.d, four.numbers[2], four.numbers[3]);
    return four;
  }
};

/// Evenly distributed in [-1, 1).
struct Uniform {
  static __device__ __forceinline__ Four of(const PhiloxWords& words) {
    return {{uniform_of(words.a), uniform_of(words.b), uniform_of(words.c), uniform_of(words.d)}};
  }
};

/// The numbers of N indices from `index` on; where N is more than 1, index is a multiple of 4.
template <class Distribution, int N>
__device__ __forceinline__ void draw(float (&numbers)[N], std::uint64_t seed, std::uint64_t index) {
  if constexpr (N == 1) {
    const Four four = Distribution::of(philox(seed, index / 4));
    const auto place = static_cast<unsigned>(index % 4);
    numbers[0] = place == 0   ? four.numbers[0]
                 : place == 1 ? four.numbers[1]
                 : place == 2 ? four.numbers[2]
                              : four.numbers[3];
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const Four four = Distribution::of(philox(seed, index / 4 + i / 4));
#pragma unroll
      for (int k = 0; k < 4; ++k) numbers[i + k] = four.numbers[k];
    }
  }
}

/// Writes s bytes an element; the arithmetic of ten rounds takes longer than they do.
template <class Distribution, class T, int N>
struct Fill {
  static constexpr int unroll = 1;
  struct Registers {};
  Rows<T> x;
  std::uint64_t seed, first_index;  ///< of the first element of x
  float factor;

  __device__ __forceinline__ void load(Registers&, std::int64_t, std::int64_t) const {}
  __device__ __forceinline__ void store(const Registers&, std::int64_t row, std::int64_t column) const {
    float numbers[N];
    draw<Distribution>(numbers, seed, first_index + static_cast<std::uint64_t>(row * x.stride + column));
#pragma unroll
    for (float& number : numbers) number *= factor;
    cuda::store(x.at(row, column), numbers);
  }
};

/// Moves 2 s bytes an element.
template <class T, int N>
struct AddUniform {
  static constexpr int unroll = 1;
  struct Registers {
    float x[N];
  };
  Rows<T> x;
  std::uint64_t seed, first_index;  ///< of the first element of x
  float bound;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, x.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float numbers[N];
    draw<Uniform>(numbers, seed, first_index + static_cast<std::uint64_t>(row * x.stride + column));
#pragma unroll
    for (int i = 0; i < N; ++i) numbers[i] = r.x[i] + bound * numbers[i];
    cuda::store(x.at(row, column), numbers);
  }
};

/// The micro-batch's seed, which the kernel reads, and what else seed_of_op (ops/random_bits.hpp) takes.
struct StoredSeed {
  const std::uint64_t* micro_batch;
  std::uint64_t number, part;
};

/// Moves the bytes of in and out, and of out again where it accumulates; the seed comes from a cache.
template <class To, class From, int N>
struct Dropout {
  static constexpr int unroll = 2;
  struct Registers {
    float in[N], out[N];
  };
  Rows<To> out;
  Rows<const From> in;
  StoredSeed seed;
  std::uint64_t first_index;
  float factor, threshold;
  bool accumulate;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.in, in.at(row, column));
    if (accumulate) cuda::load(r.out, out.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float numbers[N];
    draw<Uniform>(numbers, seed_of_op(*seed.micro_batch, seed.number, seed.part),
                  first_index + static_cast<std::uint64_t>(row * in.stride + column));
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float kept = numbers[i] < threshold ? 0.0f : factor * r.in[i];
      numbers[i] = accumulate ? r.out[i] + kept : kept;
    }
    cuda::store(out.at(row, column), numbers);
  }
};

/// The index of the first element of `part`, a piece of `whole`.
template <class Memory>
std::uint64_t index_of(const BasicView<Memory>& part, const BasicView<Memory>& whole, std::int64_t first_index) {
  const auto distance = static_cast<const char*>(part.data) - static_cast<const char*>(whole.data);
  return static_cast<std::uint64_t>(first_index + distance / (whole.is_bf16 ? 2 : 4));
}

template <class Distribution>
void fill_random(const char* name, View x, std::uint64_t seed, std::int64_t first_index, float factor,
                 cudaStream_t stream) {
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    by_vectors<vector_size<T>>(
        std::tuple(x), first_index % 4 == 0,
        [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& part) {
          constexpr int N = decltype(n)::value;
          run_elementwise<N>(name,
                             Fill<Distribution, T, N>{rows_of<T>(part), seed, index_of(part, x, first_index), factor},
                             num_vectors, per_row, stream);
        });
  });
}

}  // namespace

template <>
void run(const ops::FillNormal& op, const Context& context) {
  const View x = flat_view_of(op.x);
  const cudaStream_t stream = context.stream;
  fill_random<Normal>("fill_normal", x, op.seed, op.first_index, op.stddev, stream);
}

template <>
void run(const ops::FillUniform& op, const Context& context) {
  const View x = flat_view_of(op.x);
  const cudaStream_t stream = context.stream;
  fill_random<Uniform>("fill_uniform", x, op.seed, op.first_index, op.bound, stream);
}

template <>
void run(const ops::AddUniform& op, const Context& context) {
  const View x = flat_view_of(op.x);
  const cudaStream_t stream = context.stream;
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    by_vectors<vector_size<T>>(
        std::tuple(x), op.first_index % 4 == 0,
        [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& part) {
          constexpr int N = decltype(n)::value;
          run_elementwise<N>("add_uniform",
                             AddUniform<T, N>{rows_of<T>(part), op.seed, index_of(part, x, op.first_index), op.bound},
                             num_vectors, per_row, stream);
        });
  });
}

template <>
void run(const ops::Dropout& op, const Context& context) {
  const ViewPair pair = pair_of(op.out, op.in);
  const View out = pair.to;
  const ConstView in = pair.from;
  const StoredSeed seed{static_cast<const std::uint64_t*>(op.seed.data), op.number, op.part};
  const float probability = op.probability;
  const std::int64_t first_index = op.first_index;
  const bool accumulate = op.accumulate;
  const cudaStream_t stream = context.stream;
  const float factor = 1.0f / (1.0f - probability), threshold = 2.0f * probability - 1.0f;
  with_type(out.is_bf16, [&](auto to) {
    with_type(in.is_bf16, [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      by_vectors<vector_size<To, From>>(
          std::tuple(out, in), first_index % 4 == 0,
          [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& out_part, const ConstView& in_part) {
            constexpr int N = decltype(n)::value;
            run_elementwise<N>("dropout",
                               Dropout<To, From, N>{rows_of<To>(out_part), rows_of<const From>(in_part), seed,
                                                    index_of(in_part, in, first_index), factor, threshold, accumulate},
                               num_vectors, per_row, stream);
          });
    });
  });
}

}  // namespace sft::ops::cuda
