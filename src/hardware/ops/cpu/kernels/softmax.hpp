// SPDX-License-Identifier: Apache-2.0
#pragma once
// The running softmax of the attention, on blocks of scores held key by query.

#include "ops/cpu/kernels/attention_tile.hpp"
#include "ops/cpu/kernels/math.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// Element i of a vector.
inline float element(const ConstView& vector, std::int64_t i) {
  return vector.is_bf16 ? load(static_cast<const Bf16*>(vector.data)[i]) : static_cast<const float*>(vector.data)[i];
}

/// Scores (k, q) = softcap tanh(scale score / softcap), where visible.
inline void cap_scores(float* scores, const Block& block, float scale, float softcap) {
  const std::int64_t width = padded(block.num_queries);
  const float inner = scale / softcap;
  for (std::int64_t j = 0; j < block.num_keys; ++j) {
    float* score = scores + j * attention_tile;
#pragma omp simd
    for (std::int64_t r = block.first_query(j) / 16 * 16; r < width; ++r)
      score[r] = softcap * tanh_of(score[r] * inner);
  }
}

/// One query tile of one head while it walks over its keys: what was seen so far is sums / total of values weighted
/// with exp(score - largest); the caller holds the sums.
struct RunningSoftmax {
  float largest[attention_tile], total[attention_tile];
  /// What the block absorbed last does to earlier sums.
  float rescale[attention_tile];
  bool rescales;

  /// Starts from the merged result of earlier calls, from the sink, or from nothing.
  void read(const AttentionArguments& arguments, const AttentionTile& tile, std::int64_t head) {
    const float sink = arguments.sinks.data != nullptr ? element(arguments.sinks, head) : minus_infinity;
    for (std::int64_t r = 0; r < attention_tile; ++r) {
      const bool is_known = arguments.merges && r < tile.q_len;
      largest[r] = is_known ? arguments.lse[(tile.q_begin + r) * arguments.num_heads + head] : sink;
      total[r] = largest[r] == minus_infinity ? 0.0f : 1.0f;
    }
  }

  /// Turns scores (k, q) into exp(scale * score - largest), with a softcap of that, exact zeros where not visible.
  void absorb(float* scores, const Block& block, const AttentionArguments& arguments) {
    const bool is_capped = arguments.softcap > 0.0f;
    if (is_capped) cap_scores(scores, block, arguments.scale, arguments.softcap);
    const float scale = is_capped ? 1.0f : arguments.scale;
    const std::int64_t width = padded(block.num_queries);
    float reference[attention_tile];
    for (std::int64_t r = 0; r < width; ++r) reference[r] = minus_infinity;
    for (std::int64_t j = 0; j < block.num_keys; ++j) {
      float* score = scores + j * attention_tile;
      const std::int64_t first = block.first_query(j), begin = first / 16 * 16;
      for (std::int64_t r = begin; r < first; ++r) score[r] = minus_infinity;
      if (block.is_windowed()) {
        for (std::int64_t r = max(begin, block.end_query(j)); r < width; ++r) score[r] = minus_infinity;
      }
#pragma omp simd
      for (std::int64_t r = begin; r < width; ++r) reference[r] = score[r] > reference[r] ? score[r] : reference[r];
    }
    rescales = false;
    float change = 0.0f;
#pragma omp simd reduction(max : change)
    for (std::int64_t r = 0; r < width; ++r) {
      const float before = largest[r], block_largest = scale * reference[r];
      largest[r] = block_largest > before ? block_largest : before;
      reference[r] = largest[r] == minus_infinity ? 0.0f : largest[r];
      rescale[r] = exp_of(before - reference[r]);
      total[r] *= rescale[r];
      const float moved = rescale[r] != 1.0f ? 1.0f : 0.0f;
      change = moved > change ? moved : change;
    }
    rescales = change > 0.0f;
    for (std::int64_t j = 0; j < block.num_keys; ++j) {
      float* score = scores + j * attention_tile;
      const std::int64_t begin = block.first_query(j) / 16 * 16;
      for (std::int64_t r = 0; r < begin; ++r) score[r] = 0.0f;
#pragma omp simd
      for (std::int64_t r = begin; r < width; ++r) {
        score[r] = exp_of(score[r] * scale - reference[r]);
        total[r] += score[r];
      }
    }
  }

  /// Writes sums (q, padded(D)) / total; 0 and -infinity for rows that saw no key, now or before.
  void write(const AttentionArguments& arguments, const AttentionTile& tile, std::int64_t head, const float* sums,
             std::int64_t sums_stride) const {
    with_type(arguments.out, [&](auto type) {
      for (std::int64_t r = 0; r < tile.q_len; ++r) {
        const std::int64_t query = tile.q_begin + r;
        const bool sees_any = total[r] != 0.0f;
        const float inverse = sees_any ? 1.0f / total[r] : 0.0f;
        auto* out = row<typename decltype(type)::type>(arguments.out, query) + head * arguments.head_dim;
#pragma omp simd
        for (std::int64_t d = 0; d < arguments.head_dim; ++d) store(out[d], sums[r * sums_stride + d] * inverse);
        arguments.lse[query * arguments.num_heads + head] = sees_any ? largest[r] + log_of(total[r]) : minus_infinity;
      }
    });
  }
};

/// As softmax_backward.
template <bool is_capped>
void softmax_backward_of(float* probabilities, float* dscores, const float* lse, const float* delta, const Block& block,
                         float scale, float softcap) {
  const std::int64_t width = padded(block.num_queries);
  const float inner = is_capped ? scale / softcap : 0.0f;
  for (std::int64_t j = 0; j < block.num_keys; ++j) {
    float *p = probabilities + j * attention_tile, *ds = dscores + j * attention_tile;
    const std::int64_t first = block.first_query(j), begin = first / 16 * 16;
#pragma omp simd
    for (std::int64_t r = begin; r < width; ++r) {
      if constexpr (is_capped) {
        const float share = tanh_of(p[r] * inner);  // of the cap
        p[r] = exp_of(softcap * share - lse[r]);
        ds[r] = p[r] * (ds[r] - delta[r]) * (1.0f - share * share);
      } else {
        p[r] = exp_of(p[r] * scale - lse[r]);
        ds[r] = p[r] * (ds[r] - delta[r]);
      }
    }
    for (std::int64_t r = 0; r < first; ++r) p[r] = ds[r] = 0.0f;
    if (block.is_windowed()) {
      for (std::int64_t r = block.end_query(j); r < width; ++r) p[r] = ds[r] = 0.0f;
    }
  }
}

/// probabilities (k, q) = exp(scale * score - lse), with a softcap of that score, and gradients of scores before scale
/// = probability (dprobability - delta), with a softcap times its slope; in place, exact zeros where not visible.
inline void softmax_backward(float* probabilities, float* dscores, const float* lse, const float* delta,
                             const Block& block, const AttentionArguments& arguments) {
  if (arguments.softcap > 0.0f) {
    softmax_backward_of<true>(probabilities, dscores, lse, delta, block, arguments.scale, arguments.softcap);
  } else {
    softmax_backward_of<false>(probabilities, dscores, lse, delta, block, arguments.scale, 0.0f);
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
