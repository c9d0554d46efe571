// SPDX-License-Identifier: Apache-2.0
// Tokens in the order of their experts, and back.

#include "sft/ops/calls/expert_rows.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {}  // namespace

/// A counting sort. One thread: it reads and writes three numbers a choice.
template <>
void run(const ExpertOrder& op, Scratch) {
  const std::int32_t* const experts = int32s_of(op.experts);
  std::int32_t *const counts = int32s_of(op.counts), *const offsets = int32s_of(op.offsets),
                      *const choices = int32s_of(op.choices), *const rows = int32s_of(op.rows);
  const std::int64_t num_choices = op.experts.num_elements(), num_experts = op.counts.shape[0];
  for (std::int64_t e = 0; e < num_experts; ++e) counts[e] = 0;
  for (std::int64_t i = 0; i < num_choices; ++i) ++counts[experts[i]];
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < num_experts; ++e) {
    offsets[e] = static_cast<std::int32_t>(begin);
    begin += round_up(counts[e], op.alignment);
  }
  offsets[num_experts] = static_cast<std::int32_t>(begin);
  for (std::int64_t r = 0; r < op.choices.shape[0]; ++r) choices[r] = -1;
  for (std::int64_t e = 0; e < num_experts; ++e) counts[e] = offsets[e];  // the next row of each
  for (std::int64_t i = 0; i < num_choices; ++i) {
    const std::int32_t row = counts[experts[i]]++;
    choices[row] = static_cast<std::int32_t>(i);
    rows[i] = row;
  }
  for (std::int64_t e = 0; e < num_experts; ++e) counts[e] -= offsets[e];
}

template <>
void run(const GatherTokens& op, Scratch) {
  const View out = view_of(op.out);
  const ConstView in = view_of(op.in);
  const std::int32_t* const choices = int32s_of(op.choices);
  const float* const weights = floats_of(op.weights);
  const std::int64_t num_choices = op.num_choices;
  with_type(out, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
    for (std::int64_t r = 0; r < out.rows; ++r) {
      T* to = row<T>(out, r);
      const std::int64_t choice = choices[r];
      if (choice < 0) {
        for (std::int64_t c = 0; c < out.columns; ++c) store(to[c], 0.0f);
        continue;
      }
      const T* from = row<T>(in, choice / num_choices);
      const float weight = weights != nullptr ? weights[choice] : 1.0f;
#pragma omp simd
      for (std::int64_t c = 0; c < out.columns; ++c) store(to[c], weight * load(from[c]));
    }
  });
}

/// Sums of a piece of a row at a time, which stay in the first cache.
template <>
void run(const CombineRows& op, Scratch) {
  const View out = view_of(op.out);
  const ConstView in = view_of(op.in);
  const std::int32_t* const all_rows = int32s_of(op.rows);
  const float* const all_weights = floats_of(op.weights);
  const std::int64_t num_choices = op.rows.shape[1];
  constexpr std::int64_t piece = 512;
  with_type(in, [&](auto in_type) {
    with_type(out, [&](auto out_type) {
      using From = typename decltype(in_type)::type;
      using To = typename decltype(out_type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
      for (std::int64_t t = 0; t < out.rows; ++t) {
        const std::int32_t* rows = all_rows + t * num_choices;
        const float* weights = all_weights != nullptr ? all_weights + t * num_choices : nullptr;
        for (std::int64_t begin = 0; begin < out.columns; begin += piece) {
          const std::int64_t size = min(piece, out.columns - begin);
          To* to = row<To>(out, t) + begin;
          float sums[piece] = {};
          for (std::int64_t j = 0; j < num_choices; ++j) {
            const From* from = row<From>(in, rows[j]) + begin;
            const float weight = weights != nullptr ? weights[j] : 1.0f;
#pragma omp simd
            for (std::int64_t c = 0; c < size; ++c) sums[c] += weight * load(from[c]);
          }
          if (op.accumulate) {
#pragma omp simd
            for (std::int64_t c = 0; c < size; ++c) store(to[c], load(to[c]) + sums[c]);
          } else {
#pragma omp simd
            for (std::int64_t c = 0; c < size; ++c) store(to[c], sums[c]);
          }
        }
      }
    });
  });
}

template <>
void run(const CombineWeightsBackward& op, Scratch) {
  const ConstView dout = view_of(op.dout), in = view_of(op.in);
  const std::int32_t* const rows = int32s_of(op.rows);
  float* const dweights = floats_of(op.dweights);
  const std::int64_t num_choices = op.rows.shape[1];
  with_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (dout.rows * dout.columns * num_choices >= min_parallel_elements)
    for (std::int64_t t = 0; t < dout.rows; ++t) {
      const T* gradient = row<T>(dout, t);
      for (std::int64_t j = t * num_choices; j < (t + 1) * num_choices; ++j) {
        const T* from = row<T>(in, rows[j]);
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (std::int64_t c = 0; c < dout.columns; ++c) {
          total += static_cast<double>(load(gradient[c])) * static_cast<double>(load(from[c]));
        }
        dweights[j] = static_cast<float>(total);
      }
    }
  });
}

}  // namespace sft::ops::cpu::SFT_ISA
