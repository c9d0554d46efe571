// SPDX-License-Identifier: Apache-2.0
#pragma once
// Routers in float64, written from the definitions.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "sft/ops/call.hpp"

namespace sft::ops::testing {

using Values = std::vector<double>;

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// The numbers of the `count` largest of x, of equal ones the first.
inline std::vector<std::size_t> largest_of(const Values& x, std::size_t count) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  order.resize(count);
  return order;
}

/// The experts of one token.
inline std::vector<std::size_t> chosen_experts(const Values& logits, const Values& correction, std::size_t num_choices,
                                               const RouterRule& rule) {
  Values scores = logits;
  for (std::size_t e = 0; e < scores.size(); ++e) {
    if (rule.score == RouterScore::sigmoid) scores[e] = sigmoid(scores[e]);
    if (!correction.empty()) scores[e] += correction[e];
  }
  if (rule.num_groups > 1) {
    const std::size_t size = scores.size() / static_cast<std::size_t>(rule.num_groups);
    Values sums;
    for (std::size_t begin = 0; begin < scores.size(); begin += size) {
      Values group(scores.begin() + static_cast<std::ptrdiff_t>(begin),
                   scores.begin() + static_cast<std::ptrdiff_t>(begin + size));
      std::sort(group.rbegin(), group.rend());
      sums.push_back(group[0] + group[1]);
    }
    const auto groups = largest_of(sums, static_cast<std::size_t>(rule.chosen_groups));
    for (std::size_t e = 0; e < scores.size(); ++e) {
      if (std::find(groups.begin(), groups.end(), e / size) == groups.end()) scores[e] = -1e300;
    }
  }
  return largest_of(scores, num_choices);
}

/// The weights of the chosen experts of one token.
inline Values weights_of_chosen(const Values& logits, const std::vector<std::size_t>& experts, const RouterRule& rule) {
  double total = 0.0;
  for (const double logit : logits) total += std::exp(logit);
  Values weights;
  double sum = 0.0;
  for (const std::size_t e : experts) {
    weights.push_back(rule.score == RouterScore::sigmoid ? sigmoid(logits[e]) : std::exp(logits[e]) / total);
    sum += weights.back();
  }
  for (double& weight : weights) weight *= static_cast<double>(rule.scale) / (rule.normalize ? sum : 1.0);
  return weights;
}

/// The derivative of f at x[i], by central differences.
template <class F>
double slope(Values x, std::size_t i, F f) {
  constexpr double step = 1e-5;
  const double at = x[i];
  x[i] = at + step;
  const double above = f(x);
  x[i] = at - step;
  return (above - f(x)) / (2 * step);
}

}  // namespace sft::ops::testing
