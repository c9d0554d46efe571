// SPDX-License-Identifier: Apache-2.0
// Routers of experts: choice, weights, and what the auxiliary loss follows from.

#include "ops/views/router.hpp"
#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/run.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

constexpr std::int64_t most_experts = 1024, most_choices = 32;

/// What is not a number counts as the least.
float comparable(float x) { return x == x ? x : __builtin_bit_cast(float, 0xff800000u); }

/// The largest of `size` comparable numbers that are not taken, of equal ones the first.
std::int64_t best_of(const float* x, const bool* is_taken, std::int64_t size) {
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < size; ++i) {
    if (!is_taken[i] && (best < 0 || x[i] > x[best])) best = i;
  }
  return best;
}

/// Takes the experts of all groups but the chosen ones.
void take_other_groups(bool* is_taken, const float* scores, const RouterView& router) {
  const std::int64_t size = router.num_experts / router.num_groups;
  float sums[most_choices];
  bool is_chosen[most_choices] = {};
  for (std::int64_t g = 0; g < router.num_groups; ++g) {
    const float* group = scores + g * size;
    float first = group[0] > group[1] ? group[0] : group[1], second = group[0] > group[1] ? group[1] : group[0];
    for (std::int64_t i = 2; i < size; ++i) {
      const float lower = group[i] > first ? first : group[i];
      first = group[i] > first ? group[i] : first;
      second = lower > second ? lower : second;
    }
    sums[g] = comparable(first + second);
  }
  for (std::int64_t i = 0; i < router.chosen_groups; ++i) is_chosen[best_of(sums, is_chosen, router.num_groups)] = true;
  for (std::int64_t e = 0; e < router.num_experts; ++e) is_taken[e] = !is_chosen[e / size];
}

/// Writes e^(x - the largest x) for all x, and sums it up.
struct SoftmaxOf {
  float total;

  SoftmaxOf(const float* x, std::int64_t size, float* exponentials) {
    float most = x[0], sum = 0.0f;
#pragma omp simd reduction(max : most)
    for (std::int64_t i = 0; i < size; ++i) most = x[i] > most ? x[i] : most;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < size; ++i) {
      exponentials[i] = exp_of(x[i] - most);
      sum += exponentials[i];
    }
    total = sum;
  }
};

/// Chosen scores, of which weights are made: exponentials or sigmoids of the logits, and what they are divided by.
struct Chosen {
  float scores[most_choices];
  float divisor;

  Chosen(const RouterView& router, const float* logits, const std::int32_t* experts) : divisor(1.0f) {
    float sum = 0.0f;
    if (router.is_sigmoid) {
      for (std::int64_t j = 0; j < router.num_choices; ++j) {
        scores[j] = sigmoid_of(logits[experts[j]]);
        sum += scores[j];
      }
      if (router.normalizes) divisor = sum + 1e-20f;
      return;
    }
    float exponentials[most_experts];
    const SoftmaxOf all(logits, router.num_experts, exponentials);
    if (!router.normalizes) {
      for (std::int64_t j = 0; j < router.num_choices; ++j) scores[j] = exponentials[experts[j]];
      divisor = all.total;
      return;
    }
    // Groups may leave out the largest of all.
    for (std::int64_t j = 0; j < router.num_choices; ++j) {
      scores[j] = exp_of(logits[experts[j]] - logits[experts[0]]);
      sum += scores[j];
    }
    divisor = sum;
  }
};

}  // namespace

template <>
void run(const RouterForward& op, Scratch) {
  const RouterView router = view_of(op);
  std::int32_t* const experts = int32s_of(op.experts);
  float* const weights = floats_of(op.weights);
  const std::int64_t num_choices = router.num_choices;
#pragma omp parallel for if (router.num_tokens * router.num_experts >= min_parallel_elements / 8)
  for (std::int64_t t = 0; t < router.num_tokens; ++t) {
    const float* logits = router.logits + t * router.num_experts;
    float scores[most_experts];
    bool is_taken[most_experts] = {};
    for (std::int64_t e = 0; e < router.num_experts; ++e) {
      scores[e] = router.is_sigmoid ? sigmoid_of(logits[e]) : logits[e];
      if (router.correction != nullptr) scores[e] += router.correction[e];
      scores[e] = comparable(scores[e]);
    }
    if (router.num_groups > 1) take_other_groups(is_taken, scores, router);
    std::int32_t* chosen = experts + t * num_choices;
    for (std::int64_t j = 0; j < num_choices; ++j) {
      const std::int64_t best = best_of(scores, is_taken, router.num_experts);
      is_taken[best] = true;
      chosen[j] = static_cast<std::int32_t>(best);
    }
    const Chosen values(router, logits, chosen);
    for (std::int64_t j = 0; j < num_choices; ++j) {
      weights[t * num_choices + j] = values.scores[j] / values.divisor * router.scale;
    }
  }
}

/// With p = scores / divisor: a weight is scale p. Where they are normalized, or a softmax, the gradient of a score is
/// that of its weight less their mean by p.
template <>
void run(const RouterBackward& op, Scratch) {
  const RouterView router = view_of(op);
  float* const dlogits = floats_of(op.dlogits);
  const std::int32_t* const experts = int32s_of(op.experts);
  const float* const dweights = floats_of(op.dweights);
  const std::int64_t num_choices = router.num_choices, num_experts = router.num_experts;
#pragma omp parallel for if (router.num_tokens * num_experts >= min_parallel_elements)
  for (std::int64_t t = 0; t < router.num_tokens; ++t) {
    const float* logits = router.logits + t * num_experts;
    const std::int32_t* chosen = experts + t * num_choices;
    const float* dweight = dweights + t * num_choices;
    float* dlogit = dlogits + t * num_experts;
    const Chosen values(router, logits, chosen);
    float mean = 0.0f;
    for (std::int64_t j = 0; j < num_choices; ++j) mean += dweight[j] * (values.scores[j] / values.divisor);
    if (router.is_sigmoid && !router.normalizes) mean = 0.0f;
    if (!router.is_sigmoid && !router.normalizes) {
      float exponentials[most_experts];
      const SoftmaxOf all(logits, num_experts, exponentials);
      for (std::int64_t e = 0; e < num_experts; ++e) {
        dlogit[e] = -router.scale * mean * (exponentials[e] / all.total);
      }
    } else {
      for (std::int64_t e = 0; e < num_experts; ++e) dlogit[e] = 0.0f;
    }
    for (std::int64_t j = 0; j < num_choices; ++j) {
      const float s = values.scores[j], slope = router.is_sigmoid ? 1.0f - s : 1.0f;
      dlogit[chosen[j]] = router.scale * (dweight[j] - mean) * (s / values.divisor) * slope;
    }
  }
}

/// Tokens are summed up in blocks that depend on their number alone.
template <>
void run(const RouterSums& op, Scratch scratch) {
  ensure(column_sum_floats <= scratch.num_floats, "ops: set_workspace first");
  const std::int64_t num_tokens = op.logits.shape[0], num_experts = op.logits.shape[1];
  const float* const logits = floats_of(op.logits);
  const std::int32_t* const expert_counts = int32s_of(op.expert_counts);
  double *const probabilities = doubles_of(op.probabilities), *const counts = doubles_of(op.counts);
  const std::int64_t block_tokens = max(64, divide_up(num_tokens, 64));
  const std::int64_t num_blocks = divide_up(num_tokens, block_tokens);
  auto* partials = reinterpret_cast<double*>(scratch.data);  // (num_blocks, E)
#pragma omp parallel for if (num_tokens * num_experts >= min_parallel_elements)
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    double* partial = partials + block * num_experts;
    for (std::int64_t e = 0; e < num_experts; ++e) partial[e] = 0.0;
    for (std::int64_t t = block * block_tokens; t < min(num_tokens, (block + 1) * block_tokens); ++t) {
      float exponentials[most_experts];
      const SoftmaxOf all(logits + t * num_experts, num_experts, exponentials);
      for (std::int64_t e = 0; e < num_experts; ++e) partial[e] += static_cast<double>(exponentials[e] / all.total);
    }
  }
  for (std::int64_t e = 0; e < num_experts; ++e) {
    double total = 0.0;
    for (std::int64_t block = 0; block < num_blocks; ++block) total += partials[block * num_experts + e];
    probabilities[e] += total;
    counts[e] += static_cast<double>(expert_counts[e]);
  }
}

template <>
void run(const RouterSumsBackward& op, Scratch) {
  const std::int64_t num_tokens = op.logits.shape[0], num_experts = op.logits.shape[1];
  float* const dlogits = floats_of(op.dlogits);
  const float* const logits = floats_of(op.logits);
  const double* const counts = doubles_of(op.counts);
  float slopes[most_experts];  // of the loss, by the probability of each expert
  for (std::int64_t e = 0; e < num_experts; ++e) slopes[e] = static_cast<float>(op.factor * counts[e]);
#pragma omp parallel for if (num_tokens * num_experts >= min_parallel_elements)
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    float exponentials[most_experts];
    const SoftmaxOf all(logits + t * num_experts, num_experts, exponentials);
    float mean = 0.0f;
#pragma omp simd reduction(+ : mean)
    for (std::int64_t e = 0; e < num_experts; ++e) mean += slopes[e] * (exponentials[e] / all.total);
    float* dlogit = dlogits + t * num_experts;
#pragma omp simd
    for (std::int64_t e = 0; e < num_experts; ++e) {
      dlogit[e] += (exponentials[e] / all.total) * (slopes[e] - mean);
    }
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
