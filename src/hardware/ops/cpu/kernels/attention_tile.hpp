// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the forward and backward passes of the attention share. Scores are held transposed, key by query, (k, q): the
// softmax then runs along vector lanes, and only queries are transposed, once a tile, never keys.

#include "ops/cpu/attention_arguments.hpp"
#include "ops/cpu/kernels/transpose.hpp"

namespace sft::ops::cpu::SFT_ISA {

inline constexpr float minus_infinity = -__builtin_inff();

/// Threads that the scratch suffices for.
inline int threads_of(Scratch scratch) { return static_cast<int>(scratch.num_floats / attention_scratch_floats); }

/// Dims of tiles are padded with zeros to whole vectors of the widest instruction set.
inline std::int64_t padded(std::int64_t size) { return round_up(size, 16); }

/// out (rows, padded(D)) = in (rows, D)
template <class T>
void pack(float* out, const T* in, std::int64_t in_stride, Extent size) {
  const std::int64_t stride = padded(size.columns);
  for (std::int64_t r = 0; r < size.rows; ++r) {
#pragma omp simd
    for (std::int64_t d = 0; d < size.columns; ++d) out[r * stride + d] = load(in[r * in_stride + d]);
    for (std::int64_t d = size.columns; d < stride; ++d) out[r * stride + d] = 0.0f;
  }
}

/// out (padded(D), attention_tile) = transpose of packed (rows, padded(D)), whose rows up to padded(rows) become zero.
inline void pack_transposed(float* out, float* packed, std::int64_t rows, std::int64_t head_dim) {
  const std::int64_t stride = padded(head_dim);
  for (std::int64_t i = rows * stride; i < padded(rows) * stride; ++i) packed[i] = 0.0f;
  transpose(out, attention_tile, packed, stride, {padded(rows), stride});
}

/// Rows of `out` from `first_row`, from `first_column` on, = factor * tile (rows, D), or += where it is float32.
inline void put_rows(const View& out, std::int64_t first_row, std::int64_t first_column, const float* tile,
                     std::int64_t tile_stride, Extent size, float factor, bool adds) {
  with_type(out, [&](auto type) {
    using T = typename decltype(type)::type;
    for (std::int64_t r = 0; r < size.rows; ++r) {
      T* to = row<T>(out, first_row + r) + first_column;
      const float* from = tile + r * tile_stride;
      if (adds) {
#pragma omp simd
        for (std::int64_t d = 0; d < size.columns; ++d) store(to[d], load(to[d]) + factor * from[d]);
      } else {
#pragma omp simd
        for (std::int64_t d = 0; d < size.columns; ++d) store(to[d], factor * from[d]);
      }
    }
  });
}

/// sums (rows, D) += factor * tile (rows, D)
inline void add_rows_to(float* sums, std::int64_t sums_stride, const float* tile, std::int64_t tile_stride, Extent size,
                        float factor) {
  for (std::int64_t r = 0; r < size.rows; ++r) {
#pragma omp simd
    for (std::int64_t d = 0; d < size.columns; ++d) sums[r * sums_stride + d] += factor * tile[r * tile_stride + d];
  }
}

/// One block of the score matrix: query r sees key j iff r + horizon < j <= r + diagonal.
struct Block {
  std::int64_t num_queries, num_keys, diagonal, horizon;

  /// Keys that query r sees: [0, visible_keys(r)).
  [[nodiscard]] std::int64_t visible_keys(std::int64_t r) const { return max(0, min(num_keys, r + diagonal + 1)); }
  /// With a window, query r sees no key before first_key(r).
  [[nodiscard]] std::int64_t first_key(std::int64_t r) const { return max(0, min(num_keys, r + horizon + 1)); }
  /// Queries that see key j: [first_query(j), num_queries).
  [[nodiscard]] std::int64_t first_query(std::int64_t j) const { return max(0, min(num_queries, j - diagonal)); }
  /// Whether the window keeps some query from some key.
  [[nodiscard]] bool is_windowed() const { return num_queries - 1 + horizon >= 0; }
  /// With a window, queries from end_query(j) on do not see key j.
  [[nodiscard]] std::int64_t end_query(std::int64_t j) const { return max(0, min(num_queries, j - horizon)); }
};

/// scores (k, q) = rows (k, D) times columns (D, q); scores that are not visible may stay unwritten.
inline void multiply_scores(float* scores, const float* rows, const float* columns, std::int64_t head_dim,
                            const Block& block) {
  for (std::int64_t j = 0; j < block.num_keys; j += panel_rows) {
    const std::int64_t begin = block.first_query(j) / vector_floats * vector_floats;
    multiply_panel<false>(min(panel_rows, block.num_keys - j), padded(block.num_queries) - begin, head_dim,
                          {rows + j * padded(head_dim), padded(head_dim), 1}, columns + begin, attention_tile,
                          scores + j * attention_tile + begin, attention_tile);
  }
}

/// out (q, D) += transpose of weights (k, q) times values (k, D).
inline void add_over_keys(float* out, const float* weights, const float* values, std::int64_t head_dim,
                          const Block& block) {
  const std::int64_t stride = padded(head_dim);
  for (std::int64_t r = 0; r < block.num_queries; r += panel_rows) {
    const std::int64_t rows = min(panel_rows, block.num_queries - r);
    multiply_panel<true>(rows, stride, block.visible_keys(r + rows - 1), {weights + r, 1, attention_tile}, values,
                         stride, out + r * stride, stride);
  }
}

/// out (k, D) = weights (k, q) times values (q, D).
inline void sum_over_queries(float* out, const float* weights, const float* values, std::int64_t head_dim,
                             const Block& block) {
  const std::int64_t stride = padded(head_dim);
  for (std::int64_t j = 0; j < block.num_keys; j += panel_rows) {
    const std::int64_t begin = block.first_query(j);
    multiply_panel<false>(min(panel_rows, block.num_keys - j), stride, block.num_queries - begin,
                          {weights + j * attention_tile + begin, attention_tile, 1}, values + begin * stride, stride,
                          out + j * stride, stride);
  }
}

/// Calls visit(first key row, block) for every block of keys that some query of the tile sees. A window of w keys costs
/// a tile (w + tile) keys at most, however many there are.
template <class F>
void for_each_block(const AttentionArguments& arguments, const AttentionTile& tile, F visit) {
  for (std::int64_t i = tile.range_begin; i < tile.range_end; ++i) {
    const AttentionRange& range = arguments.ranges[i];
    const std::int64_t offset = tile.q_begin - range.q_begin;
    const std::int64_t diagonal = offset + range.diagonal, horizon = offset + range.horizon;
    const std::int64_t end = min(range.k_len, tile.q_len + diagonal);
    for (std::int64_t key = max(0, horizon + 1); key < end; key += attention_tile) {
      visit(range.k_begin + key, Block{tile.q_len, min(attention_tile, end - key), diagonal - key, horizon - key});
    }
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
