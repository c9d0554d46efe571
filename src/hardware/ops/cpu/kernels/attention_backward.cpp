// SPDX-License-Identifier: Apache-2.0
// Causal attention in blocks, backward: the probabilities are formed again from the log-sum-exp (Dao 2023).

#include <omp.h>

#include "ops/cpu/kernels/key_sums.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/softmax.hpp"
#include "sft/ops/calls/attention.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// One query tile of one head: p = exp(s - lse); dv += p' dout; dp = dout v'; ds = p (dp - delta); dq += ds k;
/// dk += ds' q.
template <class T>
void backward_tile(const AttentionArguments& arguments, const AttentionTile& tile, std::int64_t head,
                   const KeySums& sums, float* scratch) {
  const std::int64_t head_dim = arguments.head_dim, stride = padded(head_dim), tile_floats = attention_tile * stride;
  const std::int64_t kv_head = head / (arguments.num_heads / arguments.num_kv_heads);

  float* queries = scratch;                           // (q, D)
  float* queries_transposed = queries + tile_floats;  // (D, q)
  float* douts = queries_transposed + tile_floats;
  float* douts_transposed = douts + tile_floats;
  float* dqueries = douts_transposed + tile_floats;
  float* keys = dqueries + tile_floats;
  float* values = keys + tile_floats;
  float* dkeys_or_dvalues = values + tile_floats;
  float* probabilities = dkeys_or_dvalues + tile_floats;  // (k, q)
  float* dscores = probabilities + attention_tile * attention_tile;

  const T* q = row<T>(arguments.q, tile.q_begin) + head * head_dim;
  const T* dout = row<T>(arguments.dout, tile.q_begin) + head * head_dim;
  pack(queries, q, arguments.q.stride, {tile.q_len, head_dim});
  pack_transposed(queries_transposed, queries, tile.q_len, head_dim);
  pack(douts, dout, arguments.dout.stride, {tile.q_len, head_dim});
  pack_transposed(douts_transposed, douts, tile.q_len, head_dim);
  for (std::int64_t i = 0; i < tile.q_len * stride; ++i) dqueries[i] = 0.0f;
  float lse[attention_tile] = {}, delta[attention_tile] = {};
  for (std::int64_t r = 0; r < tile.q_len; ++r) {
    const std::int64_t index = (tile.q_begin + r) * arguments.num_heads + head;
    lse[r] = arguments.final_lse[index] == minus_infinity ? 0.0f : arguments.final_lse[index];
    delta[r] = arguments.delta[index];
  }

  for_each_block(arguments, tile, [&](std::int64_t key, const Block& block) {
    pack(keys, row<T>(arguments.k, key) + kv_head * head_dim, arguments.k.stride, {block.num_keys, head_dim});
    pack(values, row<T>(arguments.v, key) + kv_head * head_dim, arguments.v.stride, {block.num_keys, head_dim});
    multiply_scores(probabilities, keys, queries_transposed, head_dim, block);
    multiply_scores(dscores, values, douts_transposed, head_dim, block);
    softmax_backward(probabilities, dscores, lse, delta, block, arguments);
    sum_over_queries(dkeys_or_dvalues, probabilities, douts, head_dim, block);
    add_rows_to(sums.dv_of(key), sums.dv_stride(), dkeys_or_dvalues, stride, {block.num_keys, head_dim}, 1.0f);
    sum_over_queries(dkeys_or_dvalues, dscores, queries, head_dim, block);
    add_rows_to(sums.dk_of(key), sums.dk_stride(), dkeys_or_dvalues, stride, {block.num_keys, head_dim},
                arguments.scale);
    add_over_keys(dqueries, dscores, keys, head_dim, block);
  });
  put_rows(arguments.dq, tile.q_begin, head * head_dim, dqueries, stride, {tile.q_len, head_dim}, arguments.scale,
           arguments.adds_to_dq);
}

}  // namespace

/// Key/value heads of all lanes run at the same time; query heads and tiles that share keys, one after the other.
void attention_backward(const AttentionArguments& arguments, Scratch scratch) {
  const std::int64_t num_items = arguments.num_lanes * arguments.num_kv_heads;
  const std::int64_t group = arguments.num_heads / arguments.num_kv_heads;
  with_type(arguments.q, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for schedule(dynamic) num_threads(threads_of(scratch))
    for (std::int64_t item = 0; item < num_items; ++item) {
      const AttentionLane& lane = arguments.lanes[item / arguments.num_kv_heads];
      const std::int64_t kv_head = item % arguments.num_kv_heads;
      float* thread_scratch = scratch.data + omp_get_thread_num() * attention_scratch_floats;
      const KeySums sums(arguments, lane, kv_head, omp_get_thread_num());
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        for (std::int64_t i = lane.tile_begin; i < lane.tile_end; ++i) {
          backward_tile<T>(arguments, arguments.tiles[i], head, sums, thread_scratch);
        }
      }
      sums.finish(arguments);
    }
  });
}

/// Some heads a thread, whose sums go over the tokens in order.
template <>
void run(const AttentionSinksBackward& op, Scratch) {
  float* const dsinks = floats_of(op.dsinks);
  const ConstView sinks = flat_view_of(op.sinks);
  const float *const lse = floats_of(op.lse), *const delta = floats_of(op.delta);
  const std::int64_t num_tokens = op.lse.shape[0];
  constexpr std::int64_t heads_at_once = 16;
  const std::int64_t num_heads = sinks.columns;
#pragma omp parallel for if (num_tokens * num_heads >= min_parallel_elements)
  for (std::int64_t first = 0; first < num_heads; first += heads_at_once) {
    const std::int64_t count = min(heads_at_once, num_heads - first);
    float sink[heads_at_once];
    double sums[heads_at_once] = {};
    for (std::int64_t h = 0; h < count; ++h) sink[h] = element(sinks, first + h);
    for (std::int64_t t = 0; t < num_tokens; ++t) {
      const float *token_lse = lse + t * num_heads + first, *token_delta = delta + t * num_heads + first;
#pragma omp simd
      for (std::int64_t h = 0; h < count; ++h) {
        const bool is_there = token_lse[h] != minus_infinity;
        const float share = exp_of(sink[h] - (is_there ? token_lse[h] : 0.0f));
        sums[h] -= is_there ? share * token_delta[h] : 0.0f;
      }
    }
    for (std::int64_t h = 0; h < count; ++h) dsinks[first + h] += static_cast<float>(sums[h]);
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
