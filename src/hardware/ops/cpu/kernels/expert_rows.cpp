// SPDX-License-Identifier: Apache-2.0
// Tokens in the order of their experts, and back.

#include "ops/cpu/kernels/table.hpp"
#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// A counting sort. One thread: it reads and writes three numbers a choice.
void expert_order(const ExpertOrderArguments& order) {
  for (std::int64_t e = 0; e < order.num_experts; ++e) order.counts[e] = 0;
  for (std::int64_t i = 0; i < order.num_choices; ++i) ++order.counts[order.experts[i]];
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < order.num_experts; ++e) {
    order.offsets[e] = static_cast<std::int32_t>(begin);
    begin += round_up(order.counts[e], order.alignment);
  }
  order.offsets[order.num_experts] = static_cast<std::int32_t>(begin);
  for (std::int64_t r = 0; r < order.num_rows; ++r) order.choices[r] = -1;
  for (std::int64_t e = 0; e < order.num_experts; ++e) order.counts[e] = order.offsets[e];  // the next row of each
  for (std::int64_t i = 0; i < order.num_choices; ++i) {
    const std::int32_t row = order.counts[order.experts[i]]++;
    order.choices[row] = static_cast<std::int32_t>(i);
    order.rows[i] = row;
  }
  for (std::int64_t e = 0; e < order.num_experts; ++e) order.counts[e] -= order.offsets[e];
}

void gather_tokens(const GatherTokensArguments& gather) {
  const View& out = gather.out;
  with_type(out, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
    for (std::int64_t r = 0; r < out.rows; ++r) {
      T* to = row<T>(out, r);
      const std::int64_t choice = gather.choices[r];
      if (choice < 0) {
        for (std::int64_t c = 0; c < out.columns; ++c) store(to[c], 0.0f);
        continue;
      }
      const T* from = row<T>(gather.in, choice / gather.num_choices);
      const float weight = gather.weights != nullptr ? gather.weights[choice] : 1.0f;
#pragma omp simd
      for (std::int64_t c = 0; c < out.columns; ++c) store(to[c], weight * load(from[c]));
    }
  });
}

/// Sums of a piece of a row at a time, which stay in the first cache.
void combine_rows(const CombineRowsArguments& combine) {
  constexpr std::int64_t piece = 512;
  const View& out = combine.out;
  with_type(combine.in, [&](auto in_type) {
    with_type(out, [&](auto out_type) {
      using From = typename decltype(in_type)::type;
      using To = typename decltype(out_type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
      for (std::int64_t t = 0; t < out.rows; ++t) {
        const std::int32_t* rows = combine.rows + t * combine.num_choices;
        const float* weights = combine.weights != nullptr ? combine.weights + t * combine.num_choices : nullptr;
        for (std::int64_t begin = 0; begin < out.columns; begin += piece) {
          const std::int64_t size = min(piece, out.columns - begin);
          To* to = row<To>(out, t) + begin;
          float sums[piece] = {};
          for (std::int64_t j = 0; j < combine.num_choices; ++j) {
            const From* from = row<From>(combine.in, rows[j]) + begin;
            const float weight = weights != nullptr ? weights[j] : 1.0f;
#pragma omp simd
            for (std::int64_t c = 0; c < size; ++c) sums[c] += weight * load(from[c]);
          }
          if (combine.accumulates) {
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

void combine_weights_backward(const CombineWeightsArguments& combine) {
  const ConstView& dout = combine.dout;
  with_type(combine.in, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (dout.rows * dout.columns * combine.num_choices >= min_parallel_elements)
    for (std::int64_t t = 0; t < dout.rows; ++t) {
      const T* gradient = row<T>(dout, t);
      for (std::int64_t j = t * combine.num_choices; j < (t + 1) * combine.num_choices; ++j) {
        const T* from = row<T>(combine.in, combine.rows[j]);
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (std::int64_t c = 0; c < dout.columns; ++c) {
          total += static_cast<double>(load(gradient[c])) * static_cast<double>(load(from[c]));
        }
        combine.dweights[j] = static_cast<float>(total);
      }
    }
  });
}

}  // namespace

void enter_expert_rows(Kernels& table) {
  table.expert_order = expert_order;
  table.gather_tokens = gather_tokens;
  table.combine_rows = combine_rows;
  table.combine_weights_backward = combine_weights_backward;
}

}  // namespace sft::ops::cpu::SFT_ISA
