// Causal attention in blocks with a running softmax (Dao 2023, FlashAttention-2), forward.

#include <omp.h>

#include "ops/cpu/kernels/attention_tile.hpp"
#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/table.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// One query tile of one head while it walks over its keys: the softmax so far is sums / total, of scores - largest.
struct Running {
  float largest[attention_tile], total[attention_tile];
  float* sums;  ///< (q, padded(D))

  /// Starts from the merged result of earlier calls.
  void read(const AttentionArguments& arguments, const AttentionTile& tile, std::int64_t head) {
    const std::int64_t head_dim = arguments.head_dim, stride = arguments.num_heads * head_dim;
    pack(sums, arguments.out + tile.q_begin * stride + head * head_dim, stride, tile.q_len, head_dim, 1.0f);
    for (std::int64_t r = 0; r < attention_tile; ++r) {
      largest[r] = r < tile.q_len ? arguments.lse[(tile.q_begin + r) * arguments.num_heads + head] : minus_infinity;
      total[r] = largest[r] == minus_infinity ? 0.0f : 1.0f;
    }
  }

  /// Turns a block of scores (k, q) into exp(score - largest), with `largest` and what it scales brought up to date.
  void absorb(float* scores, const Block& block, std::int64_t head_dim) {
    const std::int64_t width = padded(block.num_queries);
    float reference[attention_tile], rescale[attention_tile];
#pragma omp simd
    for (std::int64_t r = 0; r < width; ++r) reference[r] = largest[r];
    for (std::int64_t j = 0; j < block.num_keys; ++j) {
      const float* score = scores + j * attention_tile;
#pragma omp simd
      for (std::int64_t r = 0; r < width; ++r) reference[r] = score[r] > reference[r] ? score[r] : reference[r];
    }
#pragma omp simd
    for (std::int64_t r = 0; r < width; ++r) {
      const float before = largest[r];
      largest[r] = reference[r];
      reference[r] = reference[r] == minus_infinity ? 0.0f : reference[r];
      rescale[r] = exp_of(before - reference[r]);
      total[r] *= rescale[r];
    }
    for (std::int64_t j = 0; j < block.num_keys; ++j) {
      float* score = scores + j * attention_tile;
#pragma omp simd
      for (std::int64_t r = 0; r < width; ++r) {
        score[r] = exp_of(score[r] - reference[r]);
        total[r] += score[r];
      }
    }
    const std::int64_t stride = padded(head_dim);
    for (std::int64_t r = 0; r < block.num_queries; ++r) {
      if (rescale[r] == 1.0f) continue;
#pragma omp simd
      for (std::int64_t d = 0; d < stride; ++d) sums[r * stride + d] *= rescale[r];
    }
  }

  /// Rows that saw no key, now or before, are left alone.
  void write(const AttentionArguments& arguments, const AttentionTile& tile, std::int64_t head) const {
    const std::int64_t head_dim = arguments.head_dim;
    for (std::int64_t r = 0; r < tile.q_len; ++r) {
      if (total[r] == 0.0f) continue;
      const std::int64_t index = (tile.q_begin + r) * arguments.num_heads + head;
      const float inverse = 1.0f / total[r];
      float* out = arguments.out + index * head_dim;
#pragma omp simd
      for (std::int64_t d = 0; d < head_dim; ++d) out[d] = sums[r * padded(head_dim) + d] * inverse;
      arguments.lse[index] = largest[r] + log_of(total[r]);
    }
  }
};

template <class T>
void forward_tile(const AttentionArguments& arguments, const AttentionTile& tile, std::int64_t head, float* scratch) {
  const std::int64_t head_dim = arguments.head_dim, tile_floats = attention_tile * padded(head_dim);
  const std::int64_t kv_head = head / (arguments.num_heads / arguments.num_kv_heads);
  float* queries = scratch;  // (D, q), scaled
  float* keys = queries + tile_floats;
  float* values = keys + tile_floats;
  float* scores = values + tile_floats;
  Running running;
  running.sums = scores + attention_tile * attention_tile;
  running.read(arguments, tile, head);
  pack_transposed(queries, row<T>(arguments.q, tile.q_begin) + head * head_dim, arguments.q.stride, tile.q_len,
                  head_dim, arguments.scale);
  for_each_block(arguments, tile, [&](std::int64_t key, const Block& block) {
    pack(keys, row<T>(arguments.k, key) + kv_head * head_dim, arguments.k.stride, block.num_keys, head_dim, 1.0f);
    pack(values, row<T>(arguments.v, key) + kv_head * head_dim, arguments.v.stride, block.num_keys, head_dim, 1.0f);
    multiply_scores(scores, keys, queries, head_dim, block);
    if (block.is_masked()) mask(scores, block);
    running.absorb(scores, block, head_dim);
    add_over_keys(running.sums, scores, values, head_dim, block);
  });
  running.write(arguments, tile, head);
}

void attention_forward(const AttentionArguments& arguments, Scratch scratch) {
  const std::int64_t num_items = arguments.lanes[arguments.num_lanes] * arguments.num_heads;
  with_type(arguments.q, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for schedule(dynamic) num_threads(static_cast <int>(scratch.num_floats / attention_scratch_floats))
    for (std::int64_t item = 0; item < num_items; ++item) {
      forward_tile<T>(arguments, arguments.tiles[item / arguments.num_heads], item % arguments.num_heads,
                      scratch.data + omp_get_thread_num() * attention_scratch_floats);
    }
  });
}

void attention_delta(float* delta, View out, View dout, std::int64_t head_dim) {
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

}  // namespace

void enter_attention_forward(Kernels& table) {
  table.attention_forward = attention_forward;
  table.attention_delta = attention_delta;
}

}  // namespace sft::ops::cpu::SFT_ISA
