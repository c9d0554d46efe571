// SPDX-License-Identifier: Apache-2.0
// Tokens in the order of their experts, and back. The order comes from the stable sort of kernels.hpp.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/warp.cuh"
#include "sft/ops/calls/expert_rows.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned offset_threads = 1024, dot_threads = 256;

/// Where the choices of each expert begin among all, sorted: one block, which finds them by halving, and one thread of
/// which adds up the rows. begins, shared memory and a copy in `first`, has E + 1 entries.
__global__ void __launch_bounds__(offset_threads)
    offsets_kernel(std::int32_t* counts, std::int32_t* offsets, std::int32_t* first, const std::uint32_t* sorted,
                   std::int64_t num_choices, std::int32_t num_experts, std::int32_t alignment) {
  auto* begins = shared_memory<std::int32_t>();
  for (auto e = static_cast<std::int32_t>(threadIdx.x); e <= num_experts; e += static_cast<std::int32_t>(blockDim.x)) {
    std::int64_t low = 0, high = num_choices;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (sorted[middle] < static_cast<std::uint32_t>(e)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    begins[e] = first[e] = static_cast<std::int32_t>(low);
  }
  __syncthreads();
  for (auto e = static_cast<std::int32_t>(threadIdx.x); e < num_experts; e += static_cast<std::int32_t>(blockDim.x)) {
    counts[e] = begins[e + 1] - begins[e];
  }
  if (threadIdx.x != 0) return;
  std::int32_t row = 0;
  for (std::int32_t e = 0; e < num_experts; ++e) {
    offsets[e] = row;
    row += (begins[e + 1] - begins[e] + alignment - 1) / alignment * alignment;
  }
  offsets[num_experts] = row;
}

/// Elements of a list are taken as those of rows of this many.
constexpr std::int64_t list_row = 2048;

/// Moves 4 bytes a row.
struct FillNone {
  static constexpr int unroll = 1;
  struct Registers {};
  std::int32_t* choices;

  __device__ __forceinline__ void load(Registers&, std::int64_t, std::int64_t) const {}
  __device__ __forceinline__ void store(const Registers&, std::int64_t row, std::int64_t column) const {
    choices[row * list_row + column] = -1;
  }
};

/// Moves 16 bytes a choice.
struct PlaceChoices {
  static constexpr int unroll = 1;
  struct Registers {};
  std::int32_t *choices, *rows;
  const std::int32_t *offsets, *first;
  Pairs sorted;

  __device__ __forceinline__ void load(Registers&, std::int64_t, std::int64_t) const {}
  __device__ __forceinline__ void store(const Registers&, std::int64_t row, std::int64_t column) const {
    const auto i = static_cast<std::int32_t>(row * list_row + column);
    const std::uint32_t expert = sorted.keys[i];
    const std::int32_t place = offsets[expert] + (i - first[expert]);
    choices[place] = static_cast<std::int32_t>(sorted.values[i]);
    rows[sorted.values[i]] = place;
  }
};

/// Moves 2 R C s bytes.
template <class T, int N>
struct Gather {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N];
  };
  Rows<T> out;
  Rows<const T> in;
  const std::int32_t* choices;
  const float* weights;
  std::int32_t num_choices;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    const std::int32_t choice = choices[row];
    if (choice < 0) {
#pragma unroll
      for (float& x : r.x) x = 0.0f;
      return;
    }
    cuda::load(r.x, in.at(choice / num_choices, column));
    if (weights == nullptr) return;
    const float weight = weights[choice];
#pragma unroll
    for (float& x : r.x) x *= weight;
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::store(out.at(row, column), r.x);
  }
};

/// Moves R C s bytes; biases and tables of groups stay in the cache.
template <class T, int N>
struct FillBiases {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N];
    T* to;
  };
  BiasRows rows;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    std::int64_t low = 0, high = rows.num_groups - 1;  // the first group that ends behind the row
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (rows.ends[middle] <= static_cast<std::uint64_t>(row)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const std::int64_t begin = low > 0 ? static_cast<std::int64_t>(rows.ends[low - 1]) : 0;
    cuda::load(r.x, static_cast<const T*>(rows.biases[low]) + column);
    r.to = static_cast<T*>(rows.c[low]) + (row - begin) * rows.stride + column;
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t, std::int64_t) const {
    cuda::store(r.to, r.x);
  }
};

/// Moves T k C s bytes of `in`, and T C of out, twice that when it accumulates.
template <class To, class From, int N>
struct Combine {
  static constexpr int unroll = 1;
  struct Registers {
    float sums[N];
  };
  Rows<To> out;
  Rows<const From> in;
  const std::int32_t* rows;
  const float* weights;
  std::int64_t num_choices;
  bool accumulates;

  __device__ __forceinline__ void load(Registers& r, std::int64_t token, std::int64_t column) const {
#pragma unroll
    for (float& sum : r.sums) sum = 0.0f;
    for (std::int64_t i = token * num_choices; i < (token + 1) * num_choices; ++i) {
      const float weight = weights != nullptr ? weights[i] : 1.0f;
      float x[N];
      cuda::load(x, in.at(rows[i], column));
#pragma unroll
      for (int n = 0; n < N; ++n) r.sums[n] += weight * x[n];
    }
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t token, std::int64_t column) const {
    float x[N];
#pragma unroll
    for (int n = 0; n < N; ++n) x[n] = 0.0f;
    if (accumulates) cuda::load(x, static_cast<const To*>(out.at(token, column)));
#pragma unroll
    for (int n = 0; n < N; ++n) x[n] += r.sums[n];
    cuda::store(out.at(token, column), x);
  }
};

/// A warp has a choice. Moves 2 T k C s bytes.
template <class T, int N>
__global__ void __launch_bounds__(dot_threads)
    dots_kernel(float* dots, Rows<const T> dout, Rows<const T> in, const std::int32_t* rows, std::int64_t num_dots,
                std::int64_t num_choices, std::int64_t num_columns) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (dot_threads / warp_size) + threadIdx.x / warp_size;
  if (i >= num_dots) return;
  const T *a = dout.at(i / num_choices, 0), *b = in.at(rows[i], 0);
  float sum = 0.0f;
  for (std::int64_t c = threadIdx.x % warp_size * static_cast<std::int64_t>(N); c < num_columns; c += warp_size * N) {
    float x[N], y[N];
    load(x, a + c);
    load(y, b + c);
#pragma unroll
    for (int n = 0; n < N; ++n) sum += x[n] * y[n];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % warp_size == 0) dots[i] = sum;
}

/// Hands out the pieces of the workspace, whole multiples of 256 bytes.
struct SortMemory {
  Pairs pairs, other;
  std::uint32_t* counts;
  std::int32_t* first;

  static std::size_t list_numbers(std::int64_t num_choices) { return (num_choices + 63) / 64 * 64; }
  static std::size_t count_numbers(std::int64_t num_choices) {
    return ((num_choices + sort_tile - 1) / sort_tile * sort_digits);
  }
  static std::size_t num_bytes(std::int64_t num_choices, std::int64_t num_experts) {
    return (4 * list_numbers(num_choices) + count_numbers(num_choices) + num_experts + 1) * sizeof(std::uint32_t);
  }
  SortMemory(Workspace workspace, std::int64_t num_choices) {
    auto* numbers = static_cast<std::uint32_t*>(workspace.data);
    const std::size_t size = list_numbers(num_choices);
    pairs = {numbers, numbers + size};
    other = {numbers + 2 * size, numbers + 3 * size};
    counts = numbers + 4 * size;
    first = reinterpret_cast<std::int32_t*>(counts + count_numbers(num_choices));
  }
};

}  // namespace

template <>
void run(const ops::ExpertOrder& op, const Context& context) {
  const std::int64_t num_choices = op.experts.num_elements(), num_experts = op.counts.shape[0],
                     num_rows = op.choices.shape[0];
  std::int32_t *const choices = int32s_of(op.choices), *const rows = int32s_of(op.rows),
                      *const offsets = int32s_of(op.offsets);
  const Workspace workspace = context.scratch(SortMemory::num_bytes(num_choices, num_experts));
  const cudaStream_t stream = context.stream;
  const SortMemory memory(workspace, num_choices);
  Pairs sorted = memory.pairs;
  if (num_choices > 0) {
    sorted = sort_tokens(int32s_of(op.experts), num_choices, 0, num_experts, memory.pairs, memory.other, memory.counts,
                         stream);
  }
  launch("expert_offsets", offsets_kernel, dim3(1), dim3(offset_threads), (num_experts + 1) * sizeof(std::int32_t),
         stream, int32s_of(op.counts), offsets, memory.first, sorted.keys, num_choices,
         static_cast<std::int32_t>(num_experts), static_cast<std::int32_t>(op.alignment));
  if (num_rows > num_choices) {
    run_elementwise<1>("expert_rows_fill", FillNone{choices}, num_rows, list_row, stream);
  }
  run_elementwise<1>("expert_rows_place", PlaceChoices{choices, rows, offsets, memory.first, sorted}, num_choices,
                     list_row, stream);
}

template <>
void run(const ops::GatherTokens& op, const Context& context) {
  const View out = view_of(op.out);
  const ConstView in = view_of(op.in);
  const cudaStream_t stream = context.stream;
  if (is_empty(out)) return;
  with_type(out.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      run_elementwise<N>("gather_tokens",
                         Gather<T, N>{rows_of<T>(out), rows_of<const T>(in), int32s_of(op.choices),
                                      floats_of(op.weights), static_cast<std::int32_t>(op.num_choices)},
                         out.rows * (out.columns / N), out.columns / N, stream);
    };
    constexpr int vectors = vector_size<T>;
    if (has_vectors(out, vectors) && has_vectors(in, vectors)) {
      run(std::integral_constant<int, vectors>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
  });
}

template <>
void run(const ops::CombineRows& op, const Context& context) {
  const View out = view_of(op.out);
  const ConstView in = view_of(op.in);
  const std::int32_t* const rows = int32s_of(op.rows);
  const float* const weights = floats_of(op.weights);
  const cudaStream_t stream = context.stream;
  if (is_empty(out)) return;
  with_type(out.is_bf16, [&](auto to) {
    with_type(in.is_bf16, [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      const auto run = [&](auto n) {
        constexpr int N = decltype(n)::value;
        run_elementwise<N>("combine_rows",
                           Combine<To, From, N>{rows_of<To>(out), rows_of<const From>(in), rows, weights,
                                                op.rows.shape[1], op.accumulate},
                           out.rows * (out.columns / N), out.columns / N, stream);
      };
      constexpr int vectors = vector_size<To, From>;
      if (has_vectors(out, vectors) && has_vectors(in, vectors)) {
        run(std::integral_constant<int, vectors>{});
      } else {
        run(std::integral_constant<int, 1>{});
      }
    });
  });
}

template <>
void run(const ops::CombineWeightsBackward& op, const Context& context) {
  const ConstView dout = view_of(op.dout), in = view_of(op.in);
  const std::int32_t* const rows = int32s_of(op.rows);
  float* const dweights = floats_of(op.dweights);
  const std::int64_t num_choices = op.rows.shape[1];
  const cudaStream_t stream = context.stream;
  const std::int64_t num_dots = dout.rows * num_choices;
  if (num_dots == 0) return;
  with_type(dout.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      constexpr std::int64_t dots_per_block = dot_threads / warp_size;
      launch("combine_weights_backward", dots_kernel<T, N>,
             dim3(static_cast<unsigned>((num_dots + dots_per_block - 1) / dots_per_block)), dim3(dot_threads), 0,
             stream, dweights, rows_of<const T>(dout), rows_of<const T>(in), rows, num_dots, num_choices, dout.columns);
    };
    constexpr int vectors = vector_size<T>;
    if (has_vectors(dout, vectors) && has_vectors(in, vectors)) {
      run(std::integral_constant<int, vectors>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
  });
}

void fill_biases(const BiasRows& rows, cudaStream_t stream) {
  with_type(rows.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      run_elementwise<N>("fill_biases", FillBiases<T, N>{rows}, rows.num_rows * (rows.num_columns / N),
                         rows.num_columns / N, stream);
    };
    constexpr int vectors = vector_size<T>;
    if (rows.is_aligned && rows.num_columns % vectors == 0 && rows.stride % vectors == 0) {
      run(std::integral_constant<int, vectors>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace sft::ops::cuda
