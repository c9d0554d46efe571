// SPDX-License-Identifier: Apache-2.0
// Rotary frequencies against the definition and transformers' modeling_rope_utils.

#include "sft/model/rope.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

namespace {

sft::config::Model with(sft::config::RopeType type) {
  sft::config::Model m;
  m.head_dim = 16;
  m.rope_theta = 500000.0;
  m.rope_scaling.rope_type = type;
  m.rope_scaling.factor = 8.0;
  m.rope_scaling.low_freq_factor = 1.0;
  m.rope_scaling.high_freq_factor = 4.0;
  m.rope_scaling.original_max_position_embeddings = 64;
  return m;
}

std::vector<double> frequencies(const sft::config::Model& model) {
  return sft::model::inverse_frequencies(sft::model::ropes(model).front());
}

}  // namespace

BOOST_AUTO_TEST_CASE(plain_and_linear) {
  const auto plain = frequencies(with(sft::config::RopeType::plain));
  const auto linear = frequencies(with(sft::config::RopeType::linear));
  BOOST_REQUIRE(plain.size() == 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    BOOST_TEST(plain[i] == std::pow(500000.0, -static_cast<double>(i) / 8.0), boost::test_tools::tolerance(1e-15));
    BOOST_TEST(linear[i] == plain[i] / 8.0, boost::test_tools::tolerance(1e-15));
  }
}

BOOST_AUTO_TEST_CASE(yarn) {
  // float32 values of ROPE_INIT_FUNCTIONS["yarn"] with beta_fast 32 and 8, truncate true and false
  auto m = with(sft::config::RopeType::yarn);
  m.rope_scaling.original_max_position_embeddings = 4096;
  const auto check = [&](const std::vector<double>& expected) {
    const auto got = frequencies(m);
    BOOST_REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) BOOST_TEST(got[i] == expected[i], boost::test_tools::tolerance(2e-6));
  };
  check({1, 0.193922758, 0.0266376045, 0.00303861033, 0.000176776681, 3.42810235e-05, 6.64786967e-06, 1.28917316e-06});
  m.rope_scaling.beta_fast = 8.0;
  m.rope_scaling.truncate = false;
  check({1, 0.193922758, 0.0376060307, 0.00569561915, 0.000176776681, 3.42810235e-05, 6.64786967e-06, 1.28917316e-06});
}

BOOST_AUTO_TEST_CASE(llama3) {
  // float32 values of ROPE_INIT_FUNCTIONS["llama3"]
  const std::vector<double> expected = {
      1, 0.079403013, 0.00470075384, 0.000911583134, 0.000176776681, 3.42810235e-05, 6.64786967e-06, 1.28917316e-06};
  const auto got = frequencies(with(sft::config::RopeType::llama3));
  BOOST_REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) BOOST_TEST(got[i] == expected[i], boost::test_tools::tolerance(1e-6));
}
