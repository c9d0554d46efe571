// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal attention of bf16 tensors; probabilities and their gradients are rounded to bf16 between the products, all
// sums are float32. The algorithm is that of attention_forward and attention_backward, with the heads that share keys
// handled together, and sums over keys held transposed, (D, q).
//
// `Tiles` makes the products of blocks, of which those of queries that do not see the keys are left out: an object of
// it lives in each thread that calls its functions, multiply and multiply_add of bf16_pairs.hpp.

#include <omp.h>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/kernels/bf16_pairs.hpp"
#include "ops/cpu/kernels/key_sums.hpp"
#include "ops/cpu/kernels/softmax.hpp"

namespace sft::ops::cpu::SFT_ISA {

inline constexpr std::int64_t score_words = attention_tile * attention_tile;

/// The kernels for float32.
inline Kernels fallback;

inline std::int64_t padded_block(std::int64_t size) { return round_up(size, block_step); }

/// Hands out pieces of a thread's scratch, in 32-bit words.
class Words32 {
 public:
  explicit Words32(float* scratch) : next_(scratch) {}
  template <class T>
  T* take(std::int64_t words) {
    T* piece = reinterpret_cast<T*>(next_);
    next_ += words;
    return piece;
  }

 private:
  float* next_;
};

/// The sizes of one item: query tile, head dim and its padding.
struct Sizes {
  std::int64_t head_dim, depth, queries, half_tile_words, tile_words;
  Sizes(const AttentionArguments& arguments, const AttentionTile& tile)
      : head_dim(arguments.head_dim),
        depth(padded_block(head_dim)),
        queries(padded_block(tile.q_len)),
        half_tile_words(attention_tile * depth / 2),
        tile_words(attention_tile * depth) {}
};

/// A query tile of one head in the forms that products read, and its running sums.
struct ForwardHead {
  std::int32_t* queries;  ///< paired along D, (D, q)
  float* sums;            ///< (D, q)
  RunningSoftmax running;
};

/// `rows` (padded rows, D) as the right operand of products along D: paired (D / 2, rows).
inline void pair_along_depth(std::int32_t* out, const Bf16* rows, const Sizes& sizes) {
  transpose(out, attention_tile, reinterpret_cast<const std::int32_t*>(rows), sizes.depth / 2,
            {sizes.queries, sizes.depth / 2});
}

/// `rows` (keys, D) transposed, (D, keys), as a left operand; `paired` is scratch.
inline void transpose_rows(Bf16* out, std::int32_t* paired, const Bf16* rows, std::int64_t num_rows,
                           std::int64_t depth) {
  pair_rows(paired, depth, rows, depth, {num_rows, depth});
  transpose(reinterpret_cast<std::int32_t*>(out), attention_tile / 2, paired, depth, {num_rows / 2, depth});
}

/// Rows behind the last key of a block of scores (k, q) = 0.
inline void clear_padding(float* scores, const Block& block) {
  for (std::int64_t i = block.num_keys * attention_tile; i < padded_block(block.num_keys) * attention_tile; ++i) {
    scores[i] = 0.0f;
  }
}

/// sums (D, q) = what `out` holds from `column` on; `rows` (q, D) is scratch.
inline void read_sums(float* sums, float* rows, const AttentionArguments& arguments, const AttentionTile& tile,
                      std::int64_t column, const Sizes& sizes) {
  for (std::int64_t r = 0; r < sizes.queries; ++r) {
    const std::int64_t size = r < tile.q_len ? sizes.head_dim : 0;
    const float* out = row<float>(arguments.out, tile.q_begin + r) + column;
    for (std::int64_t d = 0; d < size; ++d) rows[r * sizes.depth + d] = out[d];
    for (std::int64_t d = size; d < sizes.depth; ++d) rows[r * sizes.depth + d] = 0.0f;
  }
  transpose(sums, attention_tile, rows, sizes.depth, {sizes.queries, sizes.depth});
}

// The terms that are not zeros, because some query of a panel sees some key of it: of scores (k, q), which have all or
// none; of sums over keys, (D, q); and of sums over queries, (k, D).

inline auto score_terms(const Block& block, std::int64_t depth) {
  return [block, depth](const Panel& panel) {
    const bool is_seen = block.first_query(panel.row) < panel.column_end &&  //
                         block.end_query(panel.row_end - 1) > panel.column;
    return Terms{0, is_seen ? depth : 0};
  };
}

inline auto key_terms(const Block& block) {
  return [block](const Panel& panel) {
    return Terms{block.first_key(panel.column), block.visible_keys(panel.column_end - 1)};
  };
}

inline auto query_terms(const Block& block) {
  return [block](const Panel& panel) {
    return Terms{block.first_query(panel.row), block.end_query(panel.row_end - 1)};
  };
}

inline constexpr std::int64_t max_forward_heads = 4, max_backward_heads = 2;

/// Query heads [first, first + count), which read one key/value head.
struct HeadGroup {
  std::int64_t kv_head, first, count;
};

template <class Tiles>
void forward_tile(const AttentionArguments& arguments, const AttentionTile& tile, const HeadGroup& group,
                  float* scratch) {
  const Sizes sizes(arguments, tile);
  Words32 words(scratch);
  Bf16* rows = words.take<Bf16>(sizes.half_tile_words);               // of queries, keys or values
  std::int32_t* paired = words.take<std::int32_t>(sizes.tile_words);  // scratch; the result transposed
  Bf16* values = words.take<Bf16>(sizes.half_tile_words);             // (D, k)
  float* scores = words.take<float>(score_words);                     // (k, q)
  std::int32_t* weights = words.take<std::int32_t>(score_words / 2);  // paired along k, (k, q)
  ForwardHead heads[max_forward_heads];

  float* result = reinterpret_cast<float*>(paired);  // (q, D)
  for (std::int64_t h = 0; h < group.count; ++h) {
    const std::int64_t column = (group.first + h) * sizes.head_dim;
    heads[h].queries = words.take<std::int32_t>(sizes.half_tile_words);
    heads[h].sums = words.take<float>(sizes.tile_words);
    pad_rows(rows, {sizes.queries, sizes.depth}, row<Bf16>(arguments.q, tile.q_begin) + column, arguments.q.stride,
             {tile.q_len, sizes.head_dim});
    pair_along_depth(heads[h].queries, rows, sizes);
    if (arguments.merges) {
      read_sums(heads[h].sums, result, arguments, tile, column, sizes);
    } else {
      for (std::int64_t d = 0; d < sizes.depth; ++d) {
        for (std::int64_t r = 0; r < sizes.queries; ++r) heads[h].sums[d * attention_tile + r] = 0.0f;
      }
    }
    heads[h].running.read(arguments, tile, group.first + h);
  }

  for_each_block(arguments, tile, [&](std::int64_t key, const Block& block) {
    const std::int64_t num_keys = padded_block(block.num_keys), column = group.kv_head * sizes.head_dim;
    pad_rows(rows, {num_keys, sizes.depth}, row<Bf16>(arguments.v, key) + column, arguments.v.stride,
             {block.num_keys, sizes.head_dim});
    transpose_rows(values, paired, rows, num_keys, sizes.depth);
    pad_rows(rows, {num_keys, sizes.depth}, row<Bf16>(arguments.k, key) + column, arguments.k.stride,
             {block.num_keys, sizes.head_dim});
    for (std::int64_t h = 0; h < group.count; ++h) {
      ForwardHead& head = heads[h];
      Tiles::multiply(scores, attention_tile, rows, sizes.depth, head.queries, attention_tile,
                      {num_keys, sizes.queries}, score_terms(block, sizes.depth));
      head.running.absorb(scores, block, arguments);
      clear_padding(scores, block);
      pair_rows(weights, attention_tile, scores, attention_tile, {num_keys, sizes.queries});
      for (std::int64_t d = 0; head.running.rescales && d < sizes.depth; ++d) {
#pragma omp simd
        for (std::int64_t r = 0; r < padded(tile.q_len); ++r) {
          head.sums[d * attention_tile + r] *= head.running.rescale[r];
        }
      }
      Tiles::multiply_add(head.sums, attention_tile, values, attention_tile, weights, attention_tile,
                          {sizes.depth, sizes.queries}, key_terms(block));
    }
  });
  for (std::int64_t h = 0; h < group.count; ++h) {
    transpose(result, sizes.depth, heads[h].sums, attention_tile, {sizes.depth, sizes.queries});
    heads[h].running.write(arguments, tile, group.first + h, result, sizes.depth);
  }
}

template <class Tiles>
void attention_forward(const AttentionArguments& arguments, Scratch scratch) {
  if (!arguments.q.is_bf16) return fallback.attention_forward(arguments, scratch);
  const std::int64_t group = arguments.num_heads / arguments.num_kv_heads;
  const std::int64_t parts = divide_up(group, max_forward_heads);
  const std::int64_t items_per_tile = arguments.num_kv_heads * parts;
  const std::int64_t num_items = arguments.num_tiles * items_per_tile;
#pragma omp parallel num_threads(threads_of(scratch))
  {
    [[maybe_unused]] const Tiles tiles;
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < num_items; ++item) {
      const std::int64_t kv_head = item % items_per_tile / parts, first = item % parts * max_forward_heads;
      forward_tile<Tiles>(arguments, arguments.tiles[item / items_per_tile],
                          {kv_head, kv_head * group + first, min(max_forward_heads, group - first)},
                          scratch.data + omp_get_thread_num() * attention_scratch_floats);
    }
  }
}

/// A query tile of one head in the forms that the backward products read, and the gradient of the queries.
struct BackwardHead {
  std::int32_t *queries, *douts;                ///< paired along D, (D, q)
  std::int32_t *queries_by_row, *douts_by_row;  ///< paired along q, (q, D)
  float* dqueries;                              ///< (D, q)
  float lse[attention_tile], delta[attention_tile];

  void read(const AttentionArguments& arguments, const AttentionTile& tile, std::int64_t head, const Sizes& sizes,
            Bf16* rows) {
    const auto pack_operand = [&](std::int32_t* along_depth, std::int32_t* along_rows, const ConstView& x) {
      pad_rows(rows, {sizes.queries, sizes.depth}, row<Bf16>(x, tile.q_begin) + head * sizes.head_dim, x.stride,
               {tile.q_len, sizes.head_dim});
      pair_along_depth(along_depth, rows, sizes);
      pair_rows(along_rows, sizes.depth, rows, sizes.depth, {sizes.queries, sizes.depth});
    };
    pack_operand(queries, queries_by_row, arguments.q);
    pack_operand(douts, douts_by_row, arguments.dout);
    for (std::int64_t i = 0; i < sizes.tile_words; ++i) dqueries[i] = 0.0f;
    for (std::int64_t r = 0; r < attention_tile; ++r) {
      const std::int64_t index = (tile.q_begin + r) * arguments.num_heads + head;
      const bool is_used = r < tile.q_len && arguments.final_lse[index] != minus_infinity;
      lse[r] = is_used ? arguments.final_lse[index] : 0.0f;
      delta[r] = is_used ? arguments.delta[index] : 0.0f;
    }
  }
};

template <class Tiles>
void backward_tile(const AttentionArguments& arguments, const AttentionTile& tile, const HeadGroup& group,
                   const KeySums& sums, float* scratch) {
  const Sizes sizes(arguments, tile);
  Words32 words(scratch);
  Bf16* keys = words.take<Bf16>(sizes.half_tile_words);
  Bf16* values = words.take<Bf16>(sizes.half_tile_words);
  Bf16* keys_transposed = words.take<Bf16>(sizes.half_tile_words);  // (D, k)
  float* dkeys = words.take<float>(sizes.tile_words);               // (k, D)
  float* dvalues = words.take<float>(sizes.tile_words);             // (k, D)
  float* probabilities = words.take<float>(score_words);            // (k, q)
  float* dscores = words.take<float>(score_words);                  // (k, q)
  Bf16* rounded = words.take<Bf16>(score_words / 2);                // (k, q) of either
  std::int32_t* dscores_paired = words.take<std::int32_t>(score_words / 2);
  BackwardHead heads[max_backward_heads];
  for (std::int64_t h = 0; h < group.count; ++h) {
    BackwardHead& head = heads[h];
    head.queries = words.take<std::int32_t>(sizes.half_tile_words);
    head.queries_by_row = words.take<std::int32_t>(sizes.half_tile_words);
    head.douts = words.take<std::int32_t>(sizes.half_tile_words);
    head.douts_by_row = words.take<std::int32_t>(sizes.half_tile_words);
    head.dqueries = words.take<float>(sizes.tile_words);
    head.read(arguments, tile, group.first + h, sizes, keys);
  }

  const std::int64_t column = group.kv_head * sizes.head_dim;
  for_each_block(arguments, tile, [&](std::int64_t key, const Block& block) {
    const std::int64_t num_keys = padded_block(block.num_keys);
    pad_rows(keys, {num_keys, sizes.depth}, row<Bf16>(arguments.k, key) + column, arguments.k.stride,
             {block.num_keys, sizes.head_dim});
    pad_rows(values, {num_keys, sizes.depth}, row<Bf16>(arguments.v, key) + column, arguments.v.stride,
             {block.num_keys, sizes.head_dim});
    transpose_rows(keys_transposed, reinterpret_cast<std::int32_t*>(dkeys), keys, num_keys, sizes.depth);
    for (std::int64_t i = 0; i < num_keys * sizes.depth; ++i) dkeys[i] = dvalues[i] = 0.0f;
    for (std::int64_t h = 0; h < group.count; ++h) {
      BackwardHead& head = heads[h];
      Tiles::multiply(probabilities, attention_tile, keys, sizes.depth, head.queries, attention_tile,
                      {num_keys, sizes.queries}, score_terms(block, sizes.depth));
      Tiles::multiply(dscores, attention_tile, values, sizes.depth, head.douts, attention_tile,
                      {num_keys, sizes.queries}, score_terms(block, sizes.depth));
      softmax_backward(probabilities, dscores, head.lse, head.delta, block, arguments);
      clear_padding(probabilities, block);
      clear_padding(dscores, block);
      round_rows(rounded, attention_tile, probabilities, attention_tile, {num_keys, sizes.queries});
      Tiles::multiply_add(dvalues, sizes.depth, rounded, attention_tile, head.douts_by_row, sizes.depth,
                          {num_keys, sizes.depth}, query_terms(block));
      round_rows(rounded, attention_tile, dscores, attention_tile, {num_keys, sizes.queries});
      Tiles::multiply_add(dkeys, sizes.depth, rounded, attention_tile, head.queries_by_row, sizes.depth,
                          {num_keys, sizes.depth}, query_terms(block));
      pair_rows(dscores_paired, attention_tile, dscores, attention_tile, {num_keys, sizes.queries});
      Tiles::multiply_add(head.dqueries, attention_tile, keys_transposed, attention_tile, dscores_paired,
                          attention_tile, {sizes.depth, sizes.queries}, key_terms(block));
    }
    add_rows_to(sums.dk_of(key), sums.dk_stride(), dkeys, sizes.depth, {block.num_keys, sizes.head_dim},
                arguments.scale);
    add_rows_to(sums.dv_of(key), sums.dv_stride(), dvalues, sizes.depth, {block.num_keys, sizes.head_dim}, 1.0f);
  });
  for (std::int64_t h = 0; h < group.count; ++h) {
    transpose(dkeys, sizes.depth, heads[h].dqueries, attention_tile, {sizes.depth, sizes.queries});
    put_rows(arguments.dq, tile.q_begin, (group.first + h) * sizes.head_dim, dkeys, sizes.depth,
             {tile.q_len, sizes.head_dim}, arguments.scale, arguments.adds_to_dq);
  }
}

template <class Tiles>
void attention_backward(const AttentionArguments& arguments, Scratch scratch) {
  if (!arguments.q.is_bf16) return fallback.attention_backward(arguments, scratch);
  const std::int64_t num_items = arguments.num_lanes * arguments.num_kv_heads;
  const std::int64_t group = arguments.num_heads / arguments.num_kv_heads;
#pragma omp parallel num_threads(threads_of(scratch))
  {
    [[maybe_unused]] const Tiles tiles;
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < num_items; ++item) {
      const AttentionLane& lane = arguments.lanes[item / arguments.num_kv_heads];
      const std::int64_t kv_head = item % arguments.num_kv_heads;
      float* thread_scratch = scratch.data + omp_get_thread_num() * attention_scratch_floats;
      const KeySums sums(arguments, lane, kv_head, omp_get_thread_num());
      for (std::int64_t i = lane.tile_begin; i < lane.tile_end; ++i) {
        for (std::int64_t first = 0; first < group; first += max_backward_heads) {
          backward_tile<Tiles>(arguments, arguments.tiles[i],
                               {kv_head, kv_head * group + first, min(max_backward_heads, group - first)}, sums,
                               thread_scratch);
        }
      }
      sums.finish(arguments);
    }
  }
}

/// Replaces the attention of a full table.
template <class Tiles>
void enter_attention_bf16(Kernels& table) {
  fallback = table;
  table.attention_forward = attention_forward<Tiles>;
  table.attention_backward = attention_backward<Tiles>;
}

}  // namespace sft::ops::cpu::SFT_ISA
