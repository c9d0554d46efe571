// SPDX-License-Identifier: Apache-2.0
// Causal attention in blocks with a running softmax (Dao 2023, FlashAttention-2), forward.

#include <omp.h>

#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/softmax.hpp"
#include "sft/ops/calls/attention.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

template <class T>
void forward_tile(const AttentionArguments& arguments, const AttentionTile& tile, std::int64_t head, float* scratch) {
  const std::int64_t head_dim = arguments.head_dim, stride = padded(head_dim), tile_floats = attention_tile * stride;
  const std::int64_t kv_head = head / (arguments.num_heads / arguments.num_kv_heads);
  float* queries = scratch;  // (D, q)
  float* keys = queries + tile_floats;
  float* values = keys + tile_floats;
  float* sums = values + tile_floats;  // (q, D)
  float* scores = sums + tile_floats;  // (k, q)

  pack(sums, row<T>(arguments.q, tile.q_begin) + head * head_dim, arguments.q.stride, {tile.q_len, head_dim});
  pack_transposed(queries, sums, tile.q_len, head_dim);
  if (arguments.merges) {
    pack(sums, row<float>(arguments.out, tile.q_begin) + head * head_dim, arguments.out.stride, {tile.q_len, head_dim});
  } else {
    for (std::int64_t i = 0; i < tile.q_len * stride; ++i) sums[i] = 0.0f;
  }
  RunningSoftmax running;
  running.read(arguments, tile, head);

  for_each_block(arguments, tile, [&](std::int64_t key, const Block& block) {
    pack(keys, row<T>(arguments.k, key) + kv_head * head_dim, arguments.k.stride, {block.num_keys, head_dim});
    pack(values, row<T>(arguments.v, key) + kv_head * head_dim, arguments.v.stride, {block.num_keys, head_dim});
    multiply_scores(scores, keys, queries, head_dim, block);
    running.absorb(scores, block, arguments);
    for (std::int64_t r = 0; running.rescales && r < block.num_queries; ++r) {
      const float factor = running.rescale[r];
#pragma omp simd
      for (std::int64_t d = 0; d < stride; ++d) sums[r * stride + d] *= factor;
    }
    add_over_keys(sums, scores, values, head_dim, block);
  });
  running.write(arguments, tile, head, sums, stride);
}

}  // namespace

void attention_forward(const AttentionArguments& arguments, Scratch scratch) {
  const std::int64_t num_items = arguments.num_tiles * arguments.num_heads;
  with_type(arguments.q, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for schedule(dynamic) num_threads(threads_of(scratch))
    for (std::int64_t item = 0; item < num_items; ++item) {
      forward_tile<T>(arguments, arguments.tiles[item / arguments.num_heads], item % arguments.num_heads,
                      scratch.data + omp_get_thread_num() * attention_scratch_floats);
    }
  });
}

template <>
void run(const AttentionDelta& op, Scratch) {
  const ConstView out = view_of(op.out), dout = view_of(op.dout);
  float* const delta = floats_of(op.delta);
  const std::int64_t head_dim = op.out.shape[2];
  const std::int64_t num_heads = out.columns / head_dim;
  with_type(out, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < out.rows; ++t) {
      for (std::int64_t h = 0; h < num_heads; ++h) {
        const T *a = row<T>(out, t) + h * head_dim, *b = row<T>(dout, t) + h * head_dim;
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t d = 0; d < head_dim; ++d) sum += load(a[d]) * load(b[d]);
        delta[t * num_heads + h] = sum;
      }
    }
  });
}

}  // namespace sft::ops::cpu::SFT_ISA
