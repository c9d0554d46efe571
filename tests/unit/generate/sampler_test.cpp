// SPDX-License-Identifier: Apache-2.0
// Which tokens are drawn, and how often.

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/generate/sampler.hpp"

using namespace sft;

namespace {

/// Logits of the probabilities 0.1, 0.4, 0.2, 0.25 and 0.05.
const std::array<double, 5> probabilities{0.1, 0.4, 0.2, 0.25, 0.05};

std::vector<float> logits() {
  std::vector<float> result;
  for (const double p : probabilities) result.push_back(static_cast<float>(std::log(p) + 3.0));
  return result;
}

constexpr int num_draws = 40000;

/// How often each token was drawn, as a share.
std::map<std::int32_t, double> draw(const generate::Sampling& sampling) {
  generate::Sampler sampler(sampling);
  std::map<std::int32_t, double> shares;
  for (int i = 0; i < num_draws; ++i) shares[sampler.choose(logits())] += 1.0 / num_draws;
  return shares;
}

/// Within five standard deviations.
void check(const std::map<std::int32_t, double>& shares, const std::map<std::int32_t, double>& expected) {
  BOOST_TEST_REQUIRE(shares.size() == expected.size());
  for (const auto& [token, share] : expected) {
    BOOST_TEST_REQUIRE(shares.contains(token));
    BOOST_TEST(std::abs(shares.at(token) - share) < 5 * std::sqrt(share * (1 - share) / num_draws) + 1e-9);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(greedy_takes_the_likeliest_and_of_equals_the_first) {
  generate::Sampler sampler({});
  BOOST_TEST(sampler.choose(logits()) == 1);
  BOOST_TEST(sampler.choose(std::vector<float>{-2, 3, 3}) == 1);
}

BOOST_AUTO_TEST_CASE(temperature_bends_the_probabilities) {
  check(draw({.temperature = 1.0, .seed = 1}), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.25}, {4, 0.05}});
  std::map<std::int32_t, double> squared;
  double sum = 0.0;
  for (const double p : probabilities) sum += p * p;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    squared[static_cast<std::int32_t>(i)] = probabilities.at(i) * probabilities.at(i) / sum;
  }
  check(draw({.temperature = 0.5, .seed = 2}), squared);
}

BOOST_AUTO_TEST_CASE(top_k_keeps_the_k_likeliest_and_their_equals) {
  check(draw({.temperature = 1.0, .top_k = 2, .seed = 3}), {{1, 0.4 / 0.65}, {3, 0.25 / 0.65}});
  check(draw({.temperature = 1.0, .top_k = 1, .seed = 3}), {{1, 1.0}});
  generate::Sampler sampler({.temperature = 1.0, .top_k = 1});
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < 200; ++i) ++counts[sampler.choose(std::vector<float>{1, 2, 2, 0})];
  BOOST_TEST(counts.size() == 2U);
}

BOOST_AUTO_TEST_CASE(top_p_keeps_the_fewest_that_reach_p) {
  check(draw({.temperature = 1.0, .top_p = 0.6, .seed = 4}), {{1, 0.4 / 0.65}, {3, 0.25 / 0.65}});
  check(draw({.temperature = 1.0, .top_p = 0.7, .seed = 4}), {{1, 0.4 / 0.85}, {3, 0.25 / 0.85}, {2, 0.2 / 0.85}});
  check(draw({.temperature = 1.0, .top_p = 1e-9, .seed = 4}), {{1, 1.0}});
}

BOOST_AUTO_TEST_CASE(top_p_counts_among_the_top_k) {
  // Of 0.4, 0.25 and 0.2 the first alone has 0.47.
  check(draw({.temperature = 1.0, .top_k = 3, .top_p = 0.45, .seed = 5}), {{1, 1.0}});
}

BOOST_AUTO_TEST_CASE(the_seed_decides) {
  const auto drawn = [](std::uint64_t seed) {
    generate::Sampler sampler({.temperature = 1.0, .seed = seed});
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sampler.choose(logits()));
    return tokens;
  };
  BOOST_TEST(drawn(7) == drawn(7), boost::test_tools::per_element());
  BOOST_TEST((drawn(7) != drawn(8)));
}

BOOST_AUTO_TEST_CASE(logits_that_are_no_numbers_are_refused) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    generate::Sampler sampler({.temperature = temperature});
    const auto is_numerical = [](const Error& error) { return error.status() == ExitStatus::numerical; };
    BOOST_CHECK_EXCEPTION(static_cast<void>(sampler.choose(std::vector<float>{0, NAN, 1})), Error, is_numerical);
    BOOST_CHECK_EXCEPTION(static_cast<void>(sampler.choose(std::vector<float>{-infinity, -infinity})), Error,
                          is_numerical);
    BOOST_TEST(sampler.choose(std::vector<float>{-infinity, 1, -infinity}) == 1);
  }
}
