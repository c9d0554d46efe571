// SPDX-License-Identifier: Apache-2.0
// Rotary embedding (Su et al. 2021) in the half-split layout, alone and after RMSNorm of every head (Qwen3).
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/kernels/partials.hpp"
#include "ops/cuda/warp.cuh"
#include "ops/cuda/weight.cuh"
#include "ops/sine_cosine.hpp"
#include "sft/ops/calls/rope.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

__device__ __forceinline__ float scale_at(std::int32_t position, const RopeScale& scale) {
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
  RopeScale scale;

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
  static constexpr int unroll = 1;
  struct Registers {
    float first[N], second[N], cosine[N], sine[N];
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
    const std::int64_t at = row * half + static_cast<int>(pair) % half;
    cuda::load(r.cosine, cosine + at);
    cuda::load(r.sine, sine + at);
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t pair) const {
    float first[N], second[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float turned = direction * r.sine[i];
      first[i] = r.first[i] * r.cosine[i] - r.second[i] * turned;
      second[i] = r.second[i] * r.cosine[i] + r.first[i] * turned;
    }
    T* y = out.at(row, column_of(pair));
    cuda::store(y, first);
    cuda::store(y + half, second);
  }
};

/// A group of lanes, a power of two of at most 32, has a head: each lane P vectors of N pairs (x[j], x[j + half]),
/// `lanes` vectors apart. A warp takes `warp_heads` heads in a row, as many at a time as it has groups, and reads the
/// next ones before it computes with those that it has. The angles of a token stay for all of its heads.
constexpr unsigned head_threads = 256, head_warps = head_threads / warp_size;

struct Heads {
  std::int64_t num_heads, heads_per_row;  ///< of all tokens, of one
  int half;                               ///< pairs of a head
  unsigned lanes;                         ///< of a group
  std::int64_t warp_heads;                ///< a multiple of the groups of a warp

  [[nodiscard]] __device__ __forceinline__ int groups() const { return static_cast<int>(warp_size / lanes); }
  /// The first pair of vector p of this lane.
  template <int N>
  [[nodiscard]] __device__ __forceinline__ int pair(int p) const {
    return static_cast<int>(threadIdx.x % lanes + static_cast<unsigned>(p) * lanes) * N;
  }
};

/// The head that a group of lanes is at.
struct Walk {
  std::int64_t number, end, row;
  int head, heads_per_row;  ///< of the row

  __device__ __forceinline__ explicit Walk(const Heads& heads) {
    const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * head_warps + threadIdx.x / warp_size;
    const std::int64_t begin = warp * heads.warp_heads, all_end = begin + heads.warp_heads;
    number = begin + threadIdx.x % warp_size / heads.lanes;
    end = all_end < heads.num_heads ? all_end : heads.num_heads;
    row = number / heads.heads_per_row;
    heads_per_row = static_cast<int>(heads.heads_per_row);
    head = static_cast<int>(number - row * heads.heads_per_row);
  }
  [[nodiscard]] __device__ __forceinline__ bool is_head() const { return number < end; }
  __device__ __forceinline__ void advance(const Heads& heads) {
    number += heads.groups();
    head += heads.groups();
    while (head >= heads_per_row) {
      head -= heads_per_row;
      ++row;
    }
  }
  /// The first element of the head.
  template <class T>
  [[nodiscard]] __device__ __forceinline__ T* in(const Rows<T>& rows, const Heads& heads) const {
    return rows.at(row, head * 2 * heads.half);
  }
};

template <int N, int P>
struct Pairs {
  float first[P][N], second[P][N];
};

/// Pairs of a head as they lie in memory.
template <class T, int N, int P>
struct PackedPairs {
  Packed<T, N> first[P], second[P];

  __device__ __forceinline__ void read(const T* x, const Heads& heads) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int j = heads.pair<N>(p);
      if (j >= heads.half) continue;
      first[p].read(x + j);
      second[p].read(x + j + heads.half);
    }
  }
};

/// The weight of the pairs of this lane.
template <class T, int N, int P>
__device__ __forceinline__ Pairs<N, P> weight_of_pairs(const Weight& weight, const Heads& heads) {
  Pairs<N, P> w{};
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int j = heads.pair<N>(p);
    if (j >= heads.half) continue;
    load_weight<T>(w.first[p], weight, j);
    load_weight<T>(w.second[p], weight, j + heads.half);
  }
  return w;
}

/// Cosines and sines of a token for the pairs of this lane; those of no angle where there are no tables.
template <int N, int P>
struct Angles {
  std::int64_t row = -1;
  float cosine[P][N], sine[P][N];

  __device__ __forceinline__ void read(const float* cosines, const float* sines, std::int64_t new_row,
                                       const Heads& heads) {
    if (row == new_row) return;
    row = new_row;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int j = heads.pair<N>(p);
      if (j >= heads.half) continue;
      if (cosines != nullptr) {
        load(cosine[p], cosines + row * heads.half + j);
        load(sine[p], sines + row * heads.half + j);
        continue;
      }
#pragma unroll
      for (int i = 0; i < N; ++i) {
        cosine[p][i] = 1.0f;
        sine[p][i] = 0.0f;
      }
    }
  }
};

/// Moves 2 T n D s bytes, the tables and rstd, 4 T (D + n).
template <class T, int N, int P>
__global__ void __launch_bounds__(head_threads, 3)
    norm_rope_forward_kernel(Rows<T> out, float* rstd, Rows<const T> in, Weight weight, const float* cosine,
                             const float* sine, Heads heads, float epsilon) {
  const Pairs<N, P> w = weight_of_pairs<T, N, P>(weight, heads);
  Walk at(heads);
  Angles<N, P> angles;
  PackedPairs<T, N, P> next;
  if (at.is_head()) next.read(at.in(in, heads), heads);
  // All groups take the same number of turns, so that whole warps meet in the sums.
  for (std::int64_t turn = 0; turn < heads.warp_heads; turn += heads.groups()) {
    const PackedPairs<T, N, P> x = next;
    const bool is_head = at.is_head();
    const std::int64_t number = at.number, row = at.row;
    T* y = at.in(out, heads);
    at.advance(heads);
    if (at.is_head()) next.read(at.in(in, heads), heads);
    if (is_head) angles.read(cosine, sine, row, heads);
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (!is_head || heads.pair<N>(p) >= heads.half) continue;
      float x1[N], x2[N];
      x.first[p].unpack(x1);
      x.second[p].unpack(x2);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += x1[i] * x1[i] + x2[i] * x2[i];
    }
    sum = lane_sum(sum, heads.lanes);
    if (!is_head) continue;
    const float inverse = 1.0f / sqrtf(sum / static_cast<float>(2 * heads.half) + epsilon);
    if (threadIdx.x % heads.lanes == 0) rstd[number] = inverse;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int j = heads.pair<N>(p);
      if (j >= heads.half) continue;
      float x1[N], x2[N], first[N], second[N];
      x.first[p].unpack(x1);
      x.second[p].unpack(x2);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float a = x1[i] * inverse * w.first[p][i], b = x2[i] * inverse * w.second[p][i];
        first[i] = a * angles.cosine[p][i] - b * angles.sine[p][i];
        second[i] = b * angles.cosine[p][i] + a * angles.sine[p][i];
      }
      store(y + j, first);
      store(y + j + heads.half, second);
    }
  }
}

/// How far apart the numbers of one thread stand among those of all: such that neither neighbouring threads nor those
/// that have neighbouring columns of a head meet in a bank.
template <int N, int P>
inline constexpr unsigned sums_pitch = head_threads + warp_size / (N * P);

/// With n = x rstd, dy the gradient turned back, and g = dy weight: dx = rstd (g - n mean(g n)); a block's sum of dy n
/// goes to its row of `partials`. Moves 3 T n D s bytes, the tables and rstd, 4 T (D + n).
template <class T, int N, int P>
__global__ void __launch_bounds__(head_threads, 2)
    norm_rope_backward_kernel(Rows<T> din, float* partials, Rows<const T> dout, Rows<const T> in, const float* rstd,
                              Weight weight, const float* cosine, const float* sine, Heads heads) {
  const auto size = static_cast<float>(2 * heads.half);
  const Pairs<N, P> w = weight_of_pairs<T, N, P>(weight, heads);
  Pairs<N, P> dweight{};
  Walk at(heads);
  Angles<N, P> angles;
  PackedPairs<T, N, P> next_x, next_dout;
  float next_rstd = 0.0f;
  const auto read_next = [&] {
    if (!at.is_head()) return;
    next_x.read(at.in(in, heads), heads);
    next_dout.read(at.in(dout, heads), heads);
    next_rstd = rstd[at.number];
  };
  read_next();
  // All groups take the same number of turns, so that whole warps meet in the sums.
  for (std::int64_t turn = 0; turn < heads.warp_heads; turn += heads.groups()) {
    const PackedPairs<T, N, P> x = next_x, dy = next_dout;
    const float inverse = next_rstd;
    const bool is_head = at.is_head();
    const std::int64_t row = at.row;
    T* dx = at.in(din, heads);
    at.advance(heads);
    read_next();
    if (is_head) angles.read(cosine, sine, row, heads);
    Pairs<N, P> g;
    float dot = 0.0f;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (!is_head || heads.pair<N>(p) >= heads.half) continue;
      float x1[N], x2[N], g1[N], g2[N];
      x.first[p].unpack(x1);
      x.second[p].unpack(x2);
      dy.first[p].unpack(g1);
      dy.second[p].unpack(g2);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float c = angles.cosine[p][i], s = angles.sine[p][i];
        const float dy1 = g1[i] * c + g2[i] * s, dy2 = g2[i] * c - g1[i] * s;
        const float product1 = dy1 * (x1[i] * inverse), product2 = dy2 * (x2[i] * inverse);
        dweight.first[p][i] += product1;
        dweight.second[p][i] += product2;
        dot += product1 * w.first[p][i] + product2 * w.second[p][i];
        g.first[p][i] = dy1 * w.first[p][i];
        g.second[p][i] = dy2 * w.second[p][i];
      }
    }
    const float mean = lane_sum(dot, heads.lanes) / size;
    if (!is_head) continue;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int j = heads.pair<N>(p);
      if (j >= heads.half) continue;
      float x1[N], x2[N], first[N], second[N];
      x.first[p].unpack(x1);
      x.second[p].unpack(x2);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        first[i] = inverse * (g.first[p][i] - x1[i] * inverse * mean);
        second[i] = inverse * (g.second[p][i] - x2[i] * inverse * mean);
      }
      store(dx + j, first);
      store(dx + j + heads.half, second);
    }
  }
  if (partials == nullptr) return;
  const unsigned num_groups = head_threads / heads.lanes;
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

/// `blocks` blocks of them have all.
Heads heads_of(std::int64_t num_heads, std::int64_t heads_per_row, std::int64_t half, unsigned lanes,
               std::int64_t blocks) {
  const std::int64_t groups = warp_size / lanes, all_groups = blocks * head_warps * groups,
                     turns = (num_heads + all_groups - 1) / all_groups;
  return {num_heads, heads_per_row, static_cast<int>(half), lanes, turns * groups};
}

/// Blocks of norm_rope_forward: each group of lanes has 8 heads in turn, or fewer.
std::int64_t num_forward_blocks(std::int64_t num_heads, unsigned lanes) {
  const std::int64_t heads_per_block = 8 * head_threads / lanes;
  return (num_heads + heads_per_block - 1) / heads_per_block;
}

constexpr std::int64_t max_backward_blocks = 512;

/// Blocks of norm_rope_backward: 256 heads each, until there are many.
std::int64_t num_backward_blocks(std::int64_t num_heads) {
  constexpr std::int64_t heads_per_block = 256;
  const std::int64_t wanted = (num_heads + heads_per_block - 1) / heads_per_block;
  return wanted < max_backward_blocks ? wanted : max_backward_blocks;
}

/// Turns by +angle, with direction -1 back. out may be in, and is where the first 2 `half` dims of a head are not all.
void rope(View out, ConstView in, const RopeTable& table, std::int64_t head_dim, float direction, cudaStream_t stream) {
  if (is_empty(in)) return;
  const float *const cosine = floats_of(table.cosine), *const sine = floats_of(table.sine);
  const std::int64_t half = table.cosine.shape[1];
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

}  // namespace

template <>
void run(const ops::WriteRopeTable& op, const Context& context) {
  float *const cosine = floats_of(op.cosine), *const sine = floats_of(op.sine);
  const std::int32_t* const positions = int32s_of(op.positions);
  const double* const inverse_frequencies = doubles_of(op.inverse_frequencies);
  const std::int64_t num_positions = op.positions.num_elements(), half_dim = op.inverse_frequencies.num_elements();
  const cudaStream_t stream = context.stream;
  run_elementwise<1>("rope_table",
                     Table{{cosine, half_dim}, {sine, half_dim}, positions, inverse_frequencies, op.scale},
                     num_positions * half_dim, half_dim, stream);
}

template <>
void run(const ops::NormRopeForward& op, const Context& context) {
  ensure_head_dim(op.in);
  const View out = view_of(op.out);
  const ConstView in = view_of(op.in);
  float* const rstd = floats_of(op.rstd);
  const Weight weight = weight_of(op.weight, op.in);
  const float *const cosine = floats_of(op.table.cosine), *const sine = floats_of(op.table.sine);
  const std::int64_t head_dim = op.in.shape[2];
  const cudaStream_t stream = context.stream;
  if (is_empty(in)) return;
  const std::int64_t half = head_dim / 2, heads_per_row = in.columns / head_dim, num_heads = in.rows * heads_per_row;
  const bool others_are_aligned = is_aligned(weight) && is_table_aligned(cosine) && is_table_aligned(sine);
  by_heads(std::tuple(in, out), others_are_aligned, half, [&](auto type, auto n, auto p, unsigned lanes) {
    using T = typename decltype(type)::type;
    const std::int64_t num_blocks = num_forward_blocks(num_heads, lanes);
    launch("norm_rope_forward", norm_rope_forward_kernel<T, decltype(n)::value, decltype(p)::value>,
           dim3(static_cast<unsigned>(num_blocks)), dim3(head_threads), 0, stream, rows_of<T>(out), rstd,
           rows_of<const T>(in), weight, cosine, sine, heads_of(num_heads, heads_per_row, half, lanes, num_blocks),
           op.epsilon);
  });
}

std::int64_t norm_rope_backward_partials(std::int64_t num_heads) { return num_backward_blocks(num_heads); }

template <>
void run(const ops::NormRopeBackward& op, const Context& context) {
  ensure_head_dim(op.in);
  const View din = view_of(op.din);
  const ConstView dout = view_of(op.dout), in = view_of(op.in);
  const Partials partials(context, op.dweight, norm_rope_backward_partials(op.in.shape[0] * op.in.shape[1]),
                          op.in.shape[2]);
  const float* const rstd = floats_of(op.rstd);
  const Weight weight = weight_of(op.weight, op.in);
  const float *const cosine = floats_of(op.table.cosine), *const sine = floats_of(op.table.sine);
  const std::int64_t head_dim = op.in.shape[2];
  const cudaStream_t stream = context.stream;
  if (is_empty(in)) return;
  const std::int64_t half = head_dim / 2, heads_per_row = in.columns / head_dim, num_heads = in.rows * heads_per_row;
  const bool others_are_aligned = is_aligned(weight) && is_table_aligned(cosine) && is_table_aligned(sine);
  by_heads(std::tuple(in, din, dout), others_are_aligned, half, [&](auto type, auto n, auto p, unsigned lanes) {
    using T = typename decltype(type)::type;
    constexpr int N = decltype(n)::value, P = decltype(p)::value;
    const std::int64_t num_blocks = num_backward_blocks(num_heads);
    launch("norm_rope_backward", norm_rope_backward_kernel<T, N, P>, dim3(static_cast<unsigned>(num_blocks)),
           dim3(head_threads), 2 * P * N * sums_pitch<N, P> * sizeof(float), stream, rows_of<T>(din), partials.data(),
           rows_of<const T>(dout), rows_of<const T>(in), rstd, weight, cosine, sine,
           heads_of(num_heads, heads_per_row, half, lanes, num_blocks));
  });
  partials.add_up();
}

template <>
void run(const ops::RopeForward& op, const Context& context) {
  rope(view_of(op.out), view_of(op.in), op.table, op.in.shape[2], 1.0F, context.stream);
}

template <>
void run(const ops::RopeBackward& op, const Context& context) {
  rope(view_of(op.din), view_of(op.dout), op.table, op.din.shape[2], -1.0F, context.stream);
}

}  // namespace sft::ops::cuda
