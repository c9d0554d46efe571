// SPDX-License-Identifier: Apache-2.0
// Routers of experts against float64, gradients against differences.
#include "unit/ops/expert_reference.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

namespace {

struct RouterCase {
  std::int64_t num_tokens, num_experts, num_choices;
  RouterRule rule;
  bool has_correction = false;
};

const std::vector<RouterCase> router_cases = {
    {7, 8, 2, {}},
    {0, 8, 2, {}},
    {1, 1, 1, {.normalize = true}},
    {33, 8, 8, {.normalize = true}},
    {40, 128, 8, {.normalize = true}},
    {40, 60, 4, {.scale = 2.5F}},
    {2, 1024, 32, {}},
    {25, 16, 3, {.score = RouterScore::sigmoid}},
    {25, 16, 4, {.score = RouterScore::sigmoid, .normalize = true, .scale = 2.5F}, true},
    {25, 32, 6, {.score = RouterScore::sigmoid, .normalize = true, .num_groups = 8, .chosen_groups = 3}, true},
    {25, 32, 4, {.score = RouterScore::sigmoid, .num_groups = 16, .chosen_groups = 2}},
    {11, 24, 5, {.normalize = true, .num_groups = 4, .chosen_groups = 2}},
};

std::string text_of(const RouterCase& one) {
  return std::to_string(one.num_tokens) + " tokens, " + std::to_string(one.num_choices) + " of " +
         std::to_string(one.num_experts);
}

Values row_of(const Tensor& x, std::int64_t row) { return read(x.rows(row, 1)); }

/// Chooses, and compares with float64.
void check_choices(TestBackend& backend, const RouterCase& one, const Owned& logits, const Owned& correction) {
  const std::string label = backend.name() + ", " + text_of(one);
  const Owned experts(DType::int32, {one.num_tokens, one.num_choices}),
      weights(DType::float32, {one.num_tokens, one.num_choices});
  backend->run(RouterForward{.logits = *logits,
                             .correction = one.has_correction ? *correction : Tensor(),
                             .experts = *experts,
                             .weights = *weights,
                             .rule = one.rule});
  Values expected;
  std::int64_t num_wrong = 0;
  for (std::int64_t t = 0; t < one.num_tokens; ++t) {
    const Values logit = row_of(*logits, t);
    const auto chosen = chosen_experts(logit, one.has_correction ? read(*correction) : Values{},
                                       static_cast<std::size_t>(one.num_choices), one.rule);
    for (std::size_t j = 0; j < chosen.size(); ++j) {
      num_wrong += get(*experts, t, static_cast<std::int64_t>(j)) == static_cast<double>(chosen[j]) ? 0 : 1;
    }
    const Values weight = weights_of_chosen(logit, chosen, one.rule);
    expected.insert(expected.end(), weight.begin(), weight.end());
  }
  BOOST_TEST(num_wrong == 0, label);
  check_close(*weights, expected, 2e-6, label);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(router)

BOOST_AUTO_TEST_CASE(experts_and_weights_are_those_of_float64) {
  on_every_backend([](TestBackend& backend) {
    for (const RouterCase& one : router_cases) {
      const Owned correction = Owned(DType::float32, {one.num_experts}).normal(2, 0.3);
      check_choices(backend, one, Owned(DType::float32, {one.num_tokens, one.num_experts}).normal(1, 2.0), correction);
    }
  });
}

BOOST_AUTO_TEST_CASE(of_equal_scores_the_first_is_chosen) {
  on_every_backend([](TestBackend& backend) {
    for (RouterCase one : router_cases) {
      one.has_correction = false;
      const Owned correction(DType::float32, {one.num_experts});
      check_choices(backend, one, Owned(DType::float32, {one.num_tokens, one.num_experts}).uniform(1, 0, 3),
                    correction);
      check_choices(backend, one, Owned(DType::float32, {one.num_tokens, one.num_experts}).fill(0.5), correction);
    }
  });
}

BOOST_AUTO_TEST_CASE(normalized_weights_are_the_softmax_over_the_chosen_experts) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t num_tokens = 20, num_experts = 32, num_choices = 4;
    const Owned logits = Owned(DType::float32, {num_tokens, num_experts}).normal(5, 30.0),
                weights(DType::float32, {num_tokens, num_choices}), experts(DType::int32, {num_tokens, num_choices});
    backend->run(RouterForward{
        .logits = *logits, .correction = {}, .experts = *experts, .weights = *weights, .rule = {.normalize = true}});
    Values expected;
    for (std::int64_t t = 0; t < num_tokens; ++t) {
      double sum = 0.0;
      const auto chosen_logit = [&](std::int64_t j) {
        return get(*logits, t, static_cast<std::int64_t>(get(*experts, t, j)));
      };
      for (std::int64_t j = 0; j < num_choices; ++j) sum += std::exp(chosen_logit(j) - chosen_logit(0));
      for (std::int64_t j = 0; j < num_choices; ++j) {
        expected.push_back(std::exp(chosen_logit(j) - chosen_logit(0)) / sum);
      }
    }
    check_close(*weights, expected, 2e-6, backend.name());
  });
}

BOOST_AUTO_TEST_CASE(logits_that_are_not_numbers_choose_some_experts_once) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t num_experts = 12, num_choices = 5;
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
      const Owned logits = Owned(DType::float32, {3, num_experts}).fill(value),
                  weights(DType::float32, {3, num_choices}), experts(DType::int32, {3, num_choices});
      set(*logits, 1, 4, 1.0);
      backend->run(
          RouterForward{.logits = *logits, .correction = {}, .experts = *experts, .weights = *weights, .rule = {}});
      for (std::int64_t t = 0; t < 3; ++t) {
        Values chosen = row_of(*experts, t);
        std::sort(chosen.begin(), chosen.end());
        BOOST_TEST((std::adjacent_find(chosen.begin(), chosen.end()) == chosen.end()), backend.name());
        BOOST_TEST((chosen.front() >= 0 && chosen.back() < num_experts), backend.name());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_gradient_is_that_of_differences) {
  on_every_backend([](TestBackend& backend) {
    for (const RouterCase& one : router_cases) {
      const Owned logits = Owned(DType::float32, {one.num_tokens, one.num_experts}).normal(1, 1.5),
                  dweights = Owned(DType::float32, {one.num_tokens, one.num_choices}).normal(3),
                  experts(DType::int32, {one.num_tokens, one.num_choices}),
                  weights(DType::float32, {one.num_tokens, one.num_choices}),
                  dlogits(DType::float32, {one.num_tokens, one.num_experts});
      backend->run(RouterForward{
          .logits = *logits, .correction = {}, .experts = *experts, .weights = *weights, .rule = one.rule});
      backend->run(RouterBackward{
          .dlogits = *dlogits, .logits = *logits, .experts = *experts, .dweights = *dweights, .rule = one.rule});
      Values expected;
      for (std::int64_t t = 0; t < one.num_tokens; ++t) {
        std::vector<std::size_t> chosen;
        for (const double e : row_of(*experts, t)) chosen.push_back(static_cast<std::size_t>(e));
        const Values dweight = row_of(*dweights, t), logit = row_of(*logits, t);
        for (std::size_t e = 0; e < logit.size(); ++e) {
          expected.push_back(slope(logit, e, [&](const Values& x) {
            const Values weight = weights_of_chosen(x, chosen, one.rule);
            double sum = 0.0;
            for (std::size_t j = 0; j < weight.size(); ++j) sum += weight[j] * dweight[j];
            return sum;
          }));
        }
      }
      check_close(*dlogits, expected, 5e-6, backend.name() + ", " + text_of(one));
    }
  });
}

BOOST_AUTO_TEST_CASE(sums_and_the_gradient_of_the_auxiliary_loss) {
  on_every_backend([](TestBackend& backend) {
    for (const RouterCase& one : {RouterCase{0, 8, 2, {}}, {1, 8, 2, {}}, {300, 16, 4, {}}, {33, 128, 8, {}}}) {
      const std::string label = backend.name() + ", " + text_of(one);
      const Owned logits = Owned(DType::float32, {one.num_tokens, one.num_experts}).normal(1, 1.5),
                  expert_counts = Owned(DType::int32, {one.num_experts}).uniform(2, 0, 40),
                  counts = Owned(DType::float64, {one.num_experts}).fill(3.0),
                  probabilities = Owned(DType::float64, {one.num_experts}).fill(2.0),
                  dlogits = Owned(DType::float32, {one.num_tokens, one.num_experts}).fill(0.25);
      backend->run(RouterSums{
          .logits = *logits, .expert_counts = *expert_counts, .counts = *counts, .probabilities = *probabilities});
      const auto probabilities_of = [&](const Values& logit) {
        double total = 0.0;
        Values all;
        for (const double x : logit) total += std::exp(x);
        for (const double x : logit) all.push_back(std::exp(x) / total);
        return all;
      };
      Values expected(static_cast<std::size_t>(one.num_experts), 2.0), expected_counts = read(*expert_counts), gradient;
      for (double& count : expected_counts) count += 3.0;
      constexpr double factor = 0.01;
      for (std::int64_t t = 0; t < one.num_tokens; ++t) {
        const Values logit = row_of(*logits, t), own = probabilities_of(logit);
        for (std::size_t e = 0; e < own.size(); ++e) {
          expected[e] += own[e];
          gradient.push_back(0.25 + slope(logit, e, [&](const Values& x) {
                               const Values all = probabilities_of(x);
                               return factor * std::inner_product(all.begin(), all.end(), expected_counts.begin(), 0.0);
                             }));
        }
      }
      check_close(*probabilities, expected, 1e-6, label);
      BOOST_TEST((read(*counts) == expected_counts), label);
      backend->run(RouterSumsBackward{.dlogits = *dlogits, .logits = *logits, .counts = *counts, .factor = factor});
      check_close(*dlogits, gradient, 2e-6, label);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
