// SPDX-License-Identifier: Apache-2.0
#include "sft/generate/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::generate {

namespace {

struct Candidate {
  std::int32_t token;
  double weight;  ///< its logit; later its share of the probability, not normed
};

/// Number of candidates, sorted by falling weight, that are as likely as the k-th.
std::size_t count_top_k(const std::vector<Candidate>& sorted, std::int64_t k) {
  if (k == 0 || std::cmp_greater_equal(k, sorted.size())) return sorted.size();
  const double least = sorted[checked_cast<std::size_t>(k - 1)].weight;
  const auto end = std::ranges::find_if(sorted, [&](const Candidate& c) { return c.weight < least; });
  return checked_cast<std::size_t>(end - sorted.begin());
}

/// Number of candidates, sorted likewise, that together reach the share p of all.
std::size_t count_top_p(const std::vector<Candidate>& sorted, double sum, double p) {
  double reached = 0.0;
  std::size_t count = 0;
  while (count < sorted.size() && (count == 0 || reached < p * sum)) reached += sorted[count++].weight;
  return count;
}

}  // namespace

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {}

std::int32_t Sampler::choose(std::span<const float> logits) {
  SFT_ENSURE(!logits.empty(), "a token is chosen among at least one");
  const bool has_nan = std::ranges::any_of(logits, [](float x) { return std::isnan(x); });
  const auto likeliest = std::ranges::max_element(logits);
  if (has_nan || !std::isfinite(*likeliest)) {
    throw Error(ExitStatus::numerical, "the model's prediction is not a number", "a logit is NaN, or infinite",
                "look for damaged weights with sft-inspect; with --dtype bfloat16, try float32");
  }
  if (sampling_.temperature == 0.0) return static_cast<std::int32_t>(likeliest - logits.begin());

  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (const float logit : logits) {
    candidates.push_back({static_cast<std::int32_t>(candidates.size()), static_cast<double>(logit)});
  }
  if (sampling_.top_k > 0 || sampling_.top_p < 1.0) {
    std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::weight);
    candidates.resize(count_top_k(candidates, sampling_.top_k));
  }
  double sum = 0.0;
  for (Candidate& c : candidates) {
    c.weight = std::exp((c.weight - static_cast<double>(*likeliest)) / sampling_.temperature);
    sum += c.weight;
  }
  if (sampling_.top_p < 1.0) {
    candidates.resize(count_top_p(candidates, sum, sampling_.top_p));
    sum = 0.0;
    for (const Candidate& c : candidates) sum += c.weight;
  }
  constexpr double one_of_2_53 = 0x1.0p-53;
  double left = static_cast<double>(random_() >> 11U) * one_of_2_53 * sum;
  for (const Candidate& c : candidates) {
    left -= c.weight;
    if (left < 0.0) return c.token;
  }
  const auto possible =
      std::ranges::find_if(candidates.rbegin(), candidates.rend(), [](const Candidate& c) { return c.weight > 0.0; });
  return possible->token;  // rounding left a rest
}

}  // namespace sft::generate
