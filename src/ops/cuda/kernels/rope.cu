// SPDX-License-Identifier: Apache-2.0
// Rotary embedding (Su et al. 2021) in the half-split layout, alone and after RMSNorm of every head (Qwen3).
#include "ops/cuda/kernels/kernels.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/warp.cuh"
#include "ops/cuda/weight.cuh"
#include "ops/sine_cosine.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

__device__ __forceinline__ float scale_at(std::int32_t position, const RopeScaleArguments& scale) {
  if (scale.beta == 0.0f) return scale.factor;
  const auto lengths = static_cast<double>(1 + position / scale.length);
  return static_cast<float>(scale.factor * (1.0 + scale.beta * log(lengths)));
}

/// Writes 4 T D bytes.
struct Table {
  static constexpr int unroll = 1;
  struct Registers {};
  Rows<float> cosine, sine;
  const std::int32_t* positions;
  const double* inverse_frequencies;
  RopeScaleArguments scale;

  __device__ __forceinline__ void load(Registers&, std::int64_t, std::int64_t) const {}
  __device__ __forceinline__ void store(const Registers&, std::int64_t row, std::int64_t column) const {
    // Reduced to the nearest quarter turn in double precision; 1.5 * 2^52 rounds.
    const double angle = static_cast<double>(positions[row]) * inverse_frequencies[column];
    const double quarter = (angle * 0.63661977236758134 + 6755399441055744.0) - 6755399441055744.0;
    const float rest = static_cast<float>(angle - quarter * 1.5707963267948966);
    float s, c;
    sine_cosine_of(static_cast<std::int32_t>(quarter), rest, s, c);
    const float factor = scale_at(positions[row], scale);
    *sine.at(row, column) = s * factor;
    *cosine.at(row, column) = c * factor;
  }
};

/// A vector is N pairs (x[j], x[j + half]) of a head; a row has half / N of them for each head. Moves 2 T n D s bytes
/// and the tables, 4 T D.
template <class T, int N>
struct Rotate {
  static constexpr int unroll = 2;
  struct Registers {
    float first[N], second[N];
  };
  Rows<T> out;
  Rows<const T> in;
  const float *cosine, *sine;
  int half, head_dim;
  float direction;

  /// The first element of the vector: `pair` counts the pairs of a row.
  __device__ __forceinline__ std::int64_t column_of(std::int64_t pair) const {
    const int at = static_cast<int>(pair);
    return pair + at / half * (head_dim - half);
  }
  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t pair) const {
    const T* x = in.at(row, column_of(pair));
    cuda::load(r.first, x);
    cuda::load(r.second, x + half);
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t pair) const {
    const std::int64_t at = row * half + static_cast<int>(pair) % half;
    float c[N], s[N];
    cuda::load(c, cosine + at);
    cuda::load(s, sine + at);
    float first[N], second[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float turned = direction * s[i];
      first[i] = r.first[i] * c[i] - r.second[i] * turned;
      second[i] = r.second[i] * c[i] + r.first[i] * turned;
    }
    T* y = out.at(row, column_of(pair));
    cuda::store(y, first);
    cuda::store(y + half, second);
  }
};

/// A group of lanes, a power of two of at most 32, has a head: each lane P vectors of N pairs, `lanes` vectors apart.
constexpr unsigned head_threads = 256;

struct Heads {
  std::int64_t num_heads, heads_per_row;  ///< of all tokens, of one
  int half;                               ///< pairs of a head
  unsigned lanes;                         ///< of a group
};

/// What a group of lanes knows of its head.
struct Head {
  std::int64_t row;
  std::int64_t column;  ///< of its first element
};

__device__ __forceinline__ Head head_of(const Heads& heads, std::int64_t head) {
  const std::int64_t row = head / heads.heads_per_row;
  return {row, (head - row * heads.heads_per_row) * 2 * heads.half};
}

template <class T, int N, int P>
struct Pairs {
  float first[P][N], second[P][N];
};

/// N cosines and sines from element `at` of their tables on; those of no angle where there are none.
template <int N>
__device__ __forceinline__ void load_angles(float (&c)[N], float (&s)[N], const float* cosine, const float* sine,
                                            std::int64_t at) {
  if (cosine != nullptr) {
    load(c, cosine + at);
    load(s, sine + at);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    c[i] = 1.0f;
    s[i] = 0.0f;
  }
}

/// x of this lane; 0 beyond the head.
template <class T, int N, int P>
__device__ __forceinline__ Pairs<T, N, P> load_pairs(const T* x, const Heads& heads, unsigned lane, bool is_head) {
  Pairs<T, N, P> pairs;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int j = static_cast<int>(lane + static_cast<unsigned>(p) * heads.lanes) * N;
    if (is_head && j < heads.half) {
      load(pairs.first[p], x + j);
      load(pairs.second[p], x + j + heads.half);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) pairs.first[p][i] = pairs.second[p][i] = 0.0f;
    }
  }
  return pairs;
}

/// Moves 2 T n D s bytes, the tables and rstd, 4 T (D + n).
template <class T, int N, int P>
__global__ void __launch_bounds__(head_threads)
    norm_rope_forward_kernel(Rows<T> out, float* rstd, Rows<const T> in, Weight weight, const float* cosine,
                             const float* sine, Heads heads, float epsilon) {
  const unsigned lane = threadIdx.x % heads.lanes;
  const std::int64_t number = (static_cast<std::int64_t>(blockIdx.x) * head_threads + threadIdx.x) / heads.lanes;
  const bool is_head = number < heads.num_heads;
  const Head head = head_of(heads, is_head ? number : 0);
  const Pairs<T, N, P> x = load_pairs<T, N, P>(in.at(head.row, head.column), heads, lane, is_head);
  float sum = 0.0f;
#pragma unroll
  for (int p = 0; p < P; ++p) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum += x.first[p][i] * x.first[p][i] + x.second[p][i] * x.second[p][i];
  }
  sum = lane_sum(sum, heads.lanes);
  if (!is_head) return;
  const float inverse = 1.0f / sqrtf(sum / static_cast<float>(2 * heads.half) + epsilon);
  if (lane == 0) rstd[number] = inverse;
  T* y = out.at(head.row, head.column);
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int j = static_cast<int>(lane + static_cast<unsigned>(p) * heads.lanes) * N;
    if (j >= heads.half) continue;
    float w1[N], w2[N], c[N], s[N], first[N], second[N];
    load_weight<T>(w1, weight, j);
    load_weight<T>(w2, weight, j + heads.half);
    load_angles(c, s, cosine, sine, head.row * heads.half + j);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float a = x.first[p][i] * inverse * w1[i], b = x.second[p][i] * inverse * w2[i];
      first[i] = a * c[i] - b * s[i];
      second[i] = b * c[i] + a * s[i];
    }
    store(y + j, first);
    store(y + j + heads.half, second);
  }
}

/// How far apart the numbers of one thread stand among those of all: such that neither neighbouring threads nor those
/// that have neighbouring columns of a head meet in a bank.
template <int N, int P>
inline constexpr unsigned sums_pitch = head_threads + warp_size / (N * P);

/// With n = x rstd, dy the gradient turned back, and g = dy weight: dx = rstd (g - n mean(g n)); a block's sum of dy n
/// goes to its row of `partials`. Block b takes heads b G, b G + 1, ... of each gridDim.x G, G groups of lanes. Moves
/// 3 T n D s bytes, the tables and rstd, 4 T (D + n).
template <class T, int N, int P>
__global__ void __launch_bounds__(head_threads)
    norm_rope_backward_kernel(Rows<T> din, float* partials, Rows<const T> dout, Rows<const T> in, const float* rstd,
                              Weight weight, const float* cosine, const float* sine, Heads heads) {
  const unsigned lane = threadIdx.x % heads.lanes, group = threadIdx.x / heads.lanes,
                 num_groups = head_threads / heads.lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * num_groups;
  const auto size = static_cast<float>(2 * heads.half);
  Pairs<T, N, P> dweight{};
  // All groups take the same number of turns, so that whole warps meet in the sums.
  for (std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * num_groups; begin < heads.num_heads;
       begin += step) {
    const std::int64_t number = begin + group;
    const bool is_head = number < heads.num_heads;
    const Head head = head_of(heads, is_head ? number : 0);
    const Pairs<T, N, P> x = load_pairs<T, N, P>(in.at(head.row, head.column), heads, lane, is_head);
    Pairs<T, N, P> g = load_pairs<T, N, P>(dout.at(head.row, head.column), heads, lane, is_head);
    const float inverse = is_head ? rstd[number] : 0.0f;
    float dot = 0.0f;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int j = static_cast<int>(lane + static_cast<unsigned>(p) * heads.lanes) * N;
      if (!is_head || j >= heads.half) continue;
      float w1[N], w2[N], c[N], s[N];
      load_weight<T>(w1, weight, j);
      load_weight<T>(w2, weight, j + heads.half);
      load_angles(c, s, cosine, sine, head.row * heads.half + j);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float dy1 = g.first[p][i] * c[i] + g.second[p][i] * s[i],
                    dy2 = g.second[p][i] * c[i] - g.first[p][i] * s[i];
        const float product1 = dy1 * (x.first[p][i] * inverse), product2 = dy2 * (x.second[p][i] * inverse);
        dweight.first[p][i] += product1;
        dweight.second[p][i] += product2;
        dot += product1 * w1[i] + product2 * w2[i];
        g.first[p][i] = dy1 * w1[i];
        g.second[p][i] = dy2 * w2[i];
      }
    }
    const float mean = lane_sum(dot, heads.lanes) / size;
    if (!is_head) continue;
    T* dx = din.at(head.row, head.column);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int j = static_cast<int>(lane + static_cast<unsigned>(p) * heads.lanes) * N;
      if (j >= heads.half) continue;
      float first[N], second[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        first[i] = inverse * (g.first[p][i] - x.first[p][i] * inverse * mean);
        second[i] = inverse * (g.second[p][i] - x.second[p][i] * inverse * mean);
      }
      store(dx + j, first);
      store(dx + j + heads.half, second);
    }
  }
  if (partials == nullptr) return;
  auto* sums = shared_memory<float>();  // (2, P, N, head_threads), see sums_pitch
  const int head_dim = 2 * heads.half;
#pragma unroll
  for (int p = 0; p < P; ++p) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[(p * N + i) * sums_pitch<N, P> + threadIdx.x] = dweight.first[p][i];
      sums[((P + p) * N + i) * sums_pitch<N, P> + threadIdx.x] = dweight.second[p][i];
    }
  }
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < head_dim; column += static_cast<int>(head_threads)) {
    const int is_second = column < heads.half ? 0 : 1, j = column - is_second * heads.half;
    const unsigned vector = static_cast<unsigned>(j / N), p = vector / heads.lanes;
    const float* first =
        sums + ((is_second * P + static_cast<int>(p)) * N + j % N) * sums_pitch<N, P> + vector % heads.lanes;
    float sum = 0.0f;
    for (unsigned i = 0; i < num_groups; ++i) sum += first[i * heads.lanes];
    partials[blockIdx.x * static_cast<std::int64_t>(head_dim) + column] = sum;
  }
}

/// Lanes that have a vector of N pairs each, or P.
unsigned lanes_for(std::int64_t half, int n, int p) {
  unsigned lanes = 1;
  while (lanes < warp_size && static_cast<std::int64_t>(lanes) * n * p < half) lanes *= 2;
  return lanes;
}

/// Whether all heads of `view`, and both halves of each, begin with a vector of n elements.
template <class Memory>
bool heads_are_aligned(const BasicView<Memory>& view, std::int64_t half, int n) {
  return half % n == 0 && has_vectors(view, n);
}

bool is_table_aligned(const float* table) { return reinterpret_cast<std::uintptr_t>(table) % 16 == 0; }

/// Calls run(Type<T>, N, P, lanes of a head), with N > 1 where `views` and all other operands are aligned.
template <class... Views, class Run>
void by_heads(const std::tuple<Views...>& views, bool others_are_aligned, std::int64_t half, Run run) {
  constexpr int scalars = 4;  // pairs of a lane where it reads one at a time: 128 in all
  with_type(std::get<0>(views).is_bf16, [&](auto type) {
    constexpr int vectors = vector_size<typename decltype(type)::type>;
    const bool is_vectors =
        others_are_aligned &&
        std::apply([&](const auto&... view) { return (heads_are_aligned(view, half, vectors) && ...); }, views);
    if (is_vectors) {
      run(type, std::integral_constant<int, vectors>{}, std::integral_constant<int, 1>{}, lanes_for(half, vectors, 1));
    } else {
      run(type, std::integral_constant<int, 1>{}, std::integral_constant<int, scalars>{}, lanes_for(half, 1, scalars));
    }
  });
}

constexpr std::int64_t max_backward_blocks = 512;

/// Blocks of norm_rope_backward: 256 heads each, until there are many.
std::int64_t num_backward_blocks(std::int64_t num_heads) {
  constexpr std::int64_t heads_per_block = 256;
  const std::int64_t wanted = (num_heads + heads_per_block - 1) / heads_per_block;
  return wanted < max_backward_blocks ? wanted : max_backward_blocks;
}

}  // namespace

void rope_table(float* cosine, float* sine, const std::int32_t* positions, const double* inverse_frequencies,
                std::int64_t num_positions, std::int64_t half_dim, const RopeScaleArguments& scale,
                cudaStream_t stream) {
  run_elementwise<1>("rope_table", Table{{cosine, half_dim}, {sine, half_dim}, positions, inverse_frequencies, scale},
                     num_positions * half_dim, half_dim, stream);
}

void rope(View out, ConstView in, const float* cosine, const float* sine, std::int64_t head_dim, std::int64_t half,
          float direction, cudaStream_t stream) {
  if (is_empty(in)) return;
  const std::int64_t num_pairs = in.columns / head_dim * half;
  with_type(in.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int vectors = vector_size<T>;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      run_elementwise<N>("rope",
                         Rotate<T, N>{rows_of<T>(out), rows_of<const T>(in), cosine, sine, static_cast<int>(half),
                                      static_cast<int>(head_dim), direction},
                         in.rows * (num_pairs / N), num_pairs / N, stream);
    };
    if (head_dim % vectors == 0 && heads_are_aligned(in, half, vectors) && heads_are_aligned(out, half, vectors) &&
        is_table_aligned(cosine) && is_table_aligned(sine)) {
      run(std::integral_constant<int, vectors>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
  });
}

void norm_rope_forward(View out, float* rstd, ConstView in, Weight weight, const float* cosine, const float* sine,
                       std::int64_t head_dim, float epsilon, cudaStream_t stream) {
  if (is_empty(in)) return;
  const std::int64_t half = head_dim / 2, heads_per_row = in.columns / head_dim, num_heads = in.rows * heads_per_row;
  const bool others_are_aligned = is_aligned(weight) && is_table_aligned(cosine) && is_table_aligned(sine);
  by_heads(std::tuple(in, out), others_are_aligned, half, [&](auto type, auto n, auto p, unsigned lanes) {
    using T = typename decltype(type)::type;
    const std::int64_t heads_per_block = head_threads / lanes;
    launch("norm_rope_forward", norm_rope_forward_kernel<T, decltype(n)::value, decltype(p)::value>,
           dim3(static_cast<unsigned>((num_heads + heads_per_block - 1) / heads_per_block)), dim3(head_threads), 0,
           stream, rows_of<T>(out), rstd, rows_of<const T>(in), weight, cosine, sine,
           Heads{num_heads, heads_per_row, static_cast<int>(half), lanes}, epsilon);
  });
}

std::int64_t norm_rope_backward_partials(std::int64_t num_heads) { return num_backward_blocks(num_heads); }

void norm_rope_backward(View din, float* partials, ConstView dout, ConstView in, const float* rstd, Weight weight,
                        const float* cosine, const float* sine, std::int64_t head_dim, cudaStream_t stream) {
  if (is_empty(in)) return;
  const std::int64_t half = head_dim / 2, heads_per_row = in.columns / head_dim, num_heads = in.rows * heads_per_row;
  const bool others_are_aligned = is_aligned(weight) && is_table_aligned(cosine) && is_table_aligned(sine);
  by_heads(std::tuple(in, din, dout), others_are_aligned, half, [&](auto type, auto n, auto p, unsigned lanes) {
    using T = typename decltype(type)::type;
    constexpr int N = decltype(n)::value, P = decltype(p)::value;
    launch("norm_rope_backward", norm_rope_backward_kernel<T, N, P>,
           dim3(static_cast<unsigned>(num_backward_blocks(num_heads))), dim3(head_threads),
           2 * P * N * sums_pitch<N, P> * sizeof(float), stream, rows_of<T>(din), partials, rows_of<const T>(dout),
           rows_of<const T>(in), rstd, weight, cosine, sine,
           Heads{num_heads, heads_per_row, static_cast<int>(half), lanes});
  });
}

}  // namespace sft::ops::cuda
