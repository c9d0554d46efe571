// SPDX-License-Identifier: Apache-2.0
// Vocabulary-parallel embedding. The backward pass sorts the tokens by id, cuts the sorted list into pieces, and sums
// up runs of the same id in each piece: a run that lies within a piece goes into its row of the table at once, the
// parts of others are kept and summed up afterwards, in order.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/kernels/kernels.hpp"
#include "sft/ops/calls/embedding.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;

/// Moves T C bytes of the table's dtype and of out's.
template <class To, class From, int N>
struct Gather {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N];
  };
  Rows<To> out;
  Rows<const From> table;
  const std::int32_t* tokens;
  std::int64_t vocab_begin, vocab;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    const std::int64_t id = tokens[row] - vocab_begin;
    if (id >= 0 && id < vocab) {
      cuda::load(r.x, table.at(id, column));
    } else {
#pragma unroll
      for (float& x : r.x) x = 0.0f;
    }
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::store(out.at(row, column), r.x);
  }
};

constexpr unsigned sum_threads = 256;

/// Tokens sorted by id, in pieces. Ids of num_ids and above, which come last, have no row.
struct Pieces {
  const std::uint32_t *ids, *positions;
  std::int64_t num_tokens, piece_tokens;
  std::uint32_t num_ids;

  __device__ __forceinline__ std::int64_t end_of(std::int64_t piece) const {
    const std::int64_t end = (piece + 1) * piece_tokens;
    return end < num_tokens ? end : num_tokens;
  }
  /// Whether the run at the end of the piece goes on in the next.
  __device__ __forceinline__ bool goes_on(std::int64_t piece) const {
    const std::int64_t end = end_of(piece);
    return end < num_tokens && ids[end] == ids[end - 1];
  }
};

/// blockIdx.x is the piece. Rows 2 p and 2 p + 1 of `parts` (float32) get the sum of the run that came over piece p's
/// beginning, and of the one that begins in it and goes over its end; other runs are added to their rows of the table,
/// which are read as early as what is added. Moves T C s bytes of dout and 8 C bytes for every id there is.
template <class T, int N>
__global__ void __launch_bounds__(sum_threads)
    sum_pieces_kernel(Rows<float> dtable, float* parts, Rows<const T> dout, Pieces pieces, std::int64_t num_columns) {
  constexpr int ahead = 4;  // rows under way
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (column >= num_columns) return;
  const std::int64_t piece = blockIdx.x, begin = piece * pieces.piece_tokens, end = pieces.end_of(piece);
  const std::uint32_t first_id = pieces.ids[begin], last_id = pieces.ids[end - 1];
  const bool came_over = begin > 0 && pieces.ids[begin - 1] == first_id, goes_on = pieces.goes_on(piece);
  float sums[N] = {};
  std::uint32_t next_id = first_id;
  for (std::int64_t slot = begin; slot < end && next_id < pieces.num_ids; slot += ahead) {
    std::uint32_t ids[ahead], positions[ahead];
    bool is_end[ahead], is_whole[ahead];  // of a run, and of one that lies in the piece
    Packed<T, N> rows[ahead];
    Packed<float, N> totals[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      ids[k] = next_id;
      next_id = slot + k + 1 < end ? pieces.ids[slot + k + 1] : pieces.num_ids;
      positions[k] = slot + k < end ? pieces.positions[slot + k] : 0;
      is_end[k] = next_id != ids[k];
      is_whole[k] = is_end[k] && !(came_over && ids[k] == first_id) && !(goes_on && ids[k] == last_id);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      if (ids[k] >= pieces.num_ids) continue;
      rows[k].read(dout.at(positions[k], column));
      if (is_whole[k]) totals[k].read(dtable.at(ids[k], column));
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      if (ids[k] >= pieces.num_ids) continue;
      float row[N];
      rows[k].unpack(row);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += row[i];
      if (!is_end[k]) continue;
      if (is_whole[k]) {
        float total[N];
        totals[k].unpack(total);
#pragma unroll
        for (int i = 0; i < N; ++i) total[i] += sums[i];
        store(dtable.at(ids[k], column), total);
      } else {
        const bool is_first = came_over && ids[k] == first_id;
        store(parts + (2 * piece + (is_first ? 0 : 1)) * num_columns + column, sums);
      }
#pragma unroll
      for (float& sum : sums) sum = 0.0f;
    }
  }
}

/// Adds up the parts of the run that begins in piece blockIdx.x and goes over its end, if there is one. Moves 4 C bytes
/// a part and 8 C a run.
template <int N>
__global__ void __launch_bounds__(sum_threads)
    sum_parts_kernel(Rows<float> dtable, const float* parts, Pieces pieces, std::int64_t num_columns) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (column >= num_columns) return;
  std::int64_t piece = blockIdx.x;
  const std::int64_t begin = piece * pieces.piece_tokens;
  const std::uint32_t id = pieces.ids[pieces.end_of(piece) - 1];
  const bool came_over = begin > 0 && pieces.ids[begin - 1] == id;
  if (id >= pieces.num_ids || came_over || !pieces.goes_on(piece)) return;
  float sums[N];
  load(sums, parts + (2 * piece + 1) * num_columns + column);
  bool goes_on = true;
  while (goes_on) {
    ++piece;
    float part[N];
    load(part, parts + 2 * piece * num_columns + column);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += part[i];
    goes_on = pieces.ids[pieces.end_of(piece) - 1] == id && pieces.goes_on(piece);
  }
  float total[N];
  load(total, dtable.at(id, column));
#pragma unroll
  for (int i = 0; i < N; ++i) total[i] += sums[i];
  store(dtable.at(id, column), total);
}

constexpr std::int64_t max_tokens = std::int64_t{1} << 19;  ///< that are sorted at a time
constexpr std::size_t sort_bytes = max_tokens * 4 * sizeof(std::uint32_t),
                      count_bytes = max_tokens / sort_tile * sort_digits * sizeof(std::uint32_t);

/// Hands out the pieces of the workspace, whole multiples of 256 bytes.
struct Layout {
  Pairs pairs, other;
  std::uint32_t* counts;
  float* parts;
  std::int64_t max_pieces;

  Layout(Workspace workspace, std::int64_t columns) {
    auto* numbers = static_cast<std::uint32_t*>(workspace.data);
    pairs = {numbers, numbers + max_tokens};
    other = {numbers + 2 * max_tokens, numbers + 3 * max_tokens};
    counts = numbers + 4 * max_tokens;
    parts = reinterpret_cast<float*>(static_cast<char*>(workspace.data) + sort_bytes + count_bytes);
    const std::size_t rest = workspace.num_bytes - sort_bytes - count_bytes;
    max_pieces = static_cast<std::int64_t>(rest / (2 * columns * sizeof(float)));
  }
};

/// Two copies of sorted ids and positions and the counters of the sort, 9 MiB in all, and two rows of sums at least.
std::size_t scratch_bytes(std::int64_t columns) { return sort_bytes + count_bytes + 2 * columns * sizeof(float); }

template <class T, int N>
void add_sorted(View dtable, ConstView dout, const Pieces& pieces, std::int64_t num_pieces, float* parts,
                cudaStream_t stream) {
  const std::int64_t num_vectors = dout.columns / N;
  const auto threads = static_cast<unsigned>(num_vectors < sum_threads ? (num_vectors + 31) / 32 * 32 : sum_threads);
  const dim3 grid(static_cast<unsigned>(num_pieces), static_cast<unsigned>((num_vectors + threads - 1) / threads));
  launch("embedding_backward", sum_pieces_kernel<T, N>, grid, dim3(threads), 0, stream, rows_of<float>(dtable), parts,
         rows_of<const T>(dout), pieces, dout.columns);
  launch("embedding_backward_parts", sum_parts_kernel<N>, grid, dim3(threads), 0, stream, rows_of<float>(dtable), parts,
         pieces, dout.columns);
}

}  // namespace

template <>
void run(const ops::EmbeddingForward& op, const Context& context) {
  const View out = view_of(op.out);
  const ConstView table = view_of(op.table);
  const std::int32_t* const tokens = int32s_of(op.tokens);
  const std::int64_t vocab_begin = op.vocab_begin;
  const cudaStream_t stream = context.stream;
  if (is_empty(out)) return;
  with_type(out.is_bf16, [&](auto to) {
    with_type(table.is_bf16, [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      const auto run = [&](auto n) {
        constexpr int N = decltype(n)::value;
        run_elementwise<N>(
            "embedding_forward",
            Gather<To, From, N>{rows_of<To>(out), rows_of<const From>(table), tokens, vocab_begin, table.rows},
            out.rows * (out.columns / N), out.columns / N, stream);
      };
      constexpr int vectors = vector_size<To, From>;
      if (has_vectors(out, vectors) && has_vectors(table, vectors)) {
        run(std::integral_constant<int, vectors>{});
      } else {
        run(std::integral_constant<int, 1>{});
      }
    });
  });
}

template <>
void run(const ops::EmbeddingBackward& op, const Context& context) {
  const View dtable = view_of(op.dtable);
  const ConstView dout = view_of(op.dout);
  const std::int32_t* const tokens = int32s_of(op.tokens);
  const std::int64_t vocab_begin = op.vocab_begin;
  const Workspace workspace = context.scratch(scratch_bytes(dout.columns));
  const cudaStream_t stream = context.stream;
  if (is_empty(dout) || is_empty(dtable)) return;
  const Layout layout(workspace, dout.columns);
  constexpr std::int64_t min_piece_tokens = 32;
  with_type(dout.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    for (std::int64_t begin = 0; begin < dout.rows; begin += max_tokens) {
      const std::int64_t count = dout.rows - begin < max_tokens ? dout.rows - begin : max_tokens;
      const Pairs sorted = sort_tokens(tokens + begin, count, vocab_begin, dtable.rows, layout.pairs, layout.other,
                                       layout.counts, stream);
      const std::int64_t smallest = (count + layout.max_pieces - 1) / layout.max_pieces,
                         piece_tokens = smallest > min_piece_tokens ? smallest : min_piece_tokens,
                         num_pieces = (count + piece_tokens - 1) / piece_tokens;
      const Pieces pieces{sorted.keys, sorted.values, count, piece_tokens, static_cast<std::uint32_t>(dtable.rows)};
      const ConstView part{static_cast<const T*>(dout.data) + begin * dout.stride, dout.is_bf16, count, dout.columns,
                           dout.stride};
      constexpr int vectors = vector_size<T, float>;
      if (has_vectors(part, vectors) && has_vectors(dtable, vectors)) {
        add_sorted<T, vectors>(dtable, part, pieces, num_pieces, layout.parts, stream);
      } else {
        add_sorted<T, 1>(dtable, part, pieces, num_pieces, layout.parts, stream);
      }
    }
  });
}

}  // namespace sft::ops::cuda
