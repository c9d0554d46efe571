// SPDX-License-Identifier: Apache-2.0
// Vocabulary-parallel cross-entropy: each pass reads a row of logits once, the last two rewrite it.

#include "ops/views/cross_entropy.hpp"
#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/loss_metrics.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

bool is_parallel(const CrossEntropyView& chunk) { return chunk.rows * chunk.columns >= min_parallel_elements; }

/// Column of the row's target in this part of the vocabulary, or -1.
std::int64_t target_column(const CrossEntropyView& chunk, std::int64_t t) {
  const std::int64_t column = chunk.targets[t] - chunk.vocab_begin;
  return column >= 0 && column < chunk.columns ? column : -1;
}

/// Sum of x - largest: float sums over runs, double sums over a row.
float sum_of_shifted(const float* x, std::int64_t columns, float largest) {
  constexpr std::int64_t run = 2048;
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < columns; begin += run) {
    const std::int64_t end = min(columns, begin + run);
    float run_sum = 0.0f;
#pragma omp simd reduction(+ : run_sum)
    for (std::int64_t c = begin; c < end; ++c) run_sum += x[c] - largest;
    sum += static_cast<double>(run_sum);
  }
  return static_cast<float>(sum);
}

/// The derivative of a capped logit, of which e = exp(logit - max) is left: a logit is within the cap, so e is not 0.
inline float cap_slope(float e, float max, float cap) {
  const float share = (max + __builtin_logf(e)) / cap;
  return 1.0f - share * share;
}

void write_gradient(const CrossEntropyView& chunk, View dlogits, double gradient_scale) {
  with_type(dlogits, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (is_parallel(chunk))
    for (std::int64_t t = 0; t < chunk.rows; ++t) {
      const float* e = chunk.logits + t * chunk.columns;
      T* out = row<T>(dlogits, t);
      // Dynamic fine-tuning weighs a token by the probability of its target.
      const float probability = chunk.dft ? exp_of(chunk.target_logit[t] - chunk.max[t]) / chunk.sum_exp[t] : 1.0f;
      const auto weight = static_cast<float>(gradient_scale * static_cast<double>(chunk.weights[t])) * probability;
      if (chunk.weights[t] == 0.0f) {  // exact zeros, whatever the logits
        for (std::int64_t c = 0; c < chunk.columns; ++c) store(out[c], 0.0f);
        continue;
      }
      const std::int64_t target = target_column(chunk, t);
      const float factor = weight / chunk.sum_exp[t];
      const auto at_all = weight * static_cast<float>(chunk.smoothing * chunk.inverse_vocab);
      const float cap = chunk.logit_cap, largest = chunk.max[t];
      float at_target =
          target < 0 ? 0.0f : e[target] * factor - weight * static_cast<float>(1.0 - chunk.smoothing) - at_all;
      if (cap == 0.0f) {
#pragma omp simd
        for (std::int64_t c = 0; c < chunk.columns; ++c) store(out[c], e[c] * factor - at_all);
      } else {
        if (target >= 0) at_target *= cap_slope(e[target], largest, cap);
        for (std::int64_t c = 0; c < chunk.columns; ++c) {
          store(out[c], (e[c] * factor - at_all) * cap_slope(e[c], largest, cap));
        }
      }
      if (target >= 0) store(out[target], at_target);
    }
  });
}

}  // namespace

template <>
void run(const SoftCap& op, Scratch) {
  ensure(op.x.dtype == DType::float32, "soft_cap: float32 expected");
  const View x = view_of(op.x);
  const float cap = op.cap;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
  for (std::int64_t t = 0; t < x.rows; ++t) {
    float* logits = row<float>(x, t);
    for (std::int64_t c = 0; c < x.columns; ++c) logits[c] = cap * __builtin_tanhf(logits[c] / cap);
  }
}

template <>
void run(const CrossEntropyMax& op, Scratch) {
  const CrossEntropyView chunk = view_of(op.chunk);
#pragma omp parallel for if (is_parallel(chunk))
  for (std::int64_t t = 0; t < chunk.rows; ++t) {
    const float* x = chunk.logits + t * chunk.columns;
    float largest = -__builtin_inff();
#pragma omp simd reduction(max : largest)
    for (std::int64_t c = 0; c < chunk.columns; ++c) largest = x[c] > largest ? x[c] : largest;
    chunk.max[t] = largest;
  }
}

template <>
void run(const CrossEntropyPartials& op, Scratch) {
  const CrossEntropyView chunk = view_of(op.chunk);
  constexpr std::int64_t run = 2048;  // float sums over runs, double sums over a row
#pragma omp parallel for if (is_parallel(chunk))
  for (std::int64_t t = 0; t < chunk.rows; ++t) {
    float* x = chunk.logits + t * chunk.columns;
    const float largest = chunk.max[t];
    const std::int64_t target = target_column(chunk, t);
    chunk.target_logit[t] = target < 0 ? 0.0f : x[target];
    if (chunk.sum_logit != nullptr) chunk.sum_logit[t] = sum_of_shifted(x, chunk.columns, largest);
    double sum_exp = 0.0, sum_exp_logit = 0.0;
    for (std::int64_t begin = 0; begin < chunk.columns; begin += run) {
      const std::int64_t end = min(chunk.columns, begin + run);
      float run_exp = 0.0f, run_exp_logit = 0.0f;
#pragma omp simd reduction(+ : run_exp, run_exp_logit)
      for (std::int64_t c = begin; c < end; ++c) {
        const float shifted = x[c] - largest;
        const float e = exp_of(shifted);
        x[c] = e;
        run_exp += e;
        run_exp_logit += e > 0.0f ? e * shifted : e;  // 0 * -inf is 0 here
      }
      sum_exp += static_cast<double>(run_exp);
      sum_exp_logit += static_cast<double>(run_exp_logit);
    }
    chunk.sum_exp[t] = static_cast<float>(sum_exp);
    chunk.sum_exp_logit[t] = static_cast<float>(sum_exp_logit);
  }
}

template <>
void run(const CrossEntropyFinish& op, Scratch) {
  const CrossEntropyView chunk = view_of(op.chunk);
  add_loss_metrics(chunk, doubles_of(op.metrics));
  if (op.dlogits.data != nullptr) write_gradient(chunk, view_of(op.dlogits), op.gradient_scale);
}

}  // namespace sft::ops::cpu::SFT_ISA
