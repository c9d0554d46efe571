// SPDX-License-Identifier: Apache-2.0
#include "sft/config/step_shares.hpp"

#include <boost/test/unit_test.hpp>

using namespace sft::config;

BOOST_AUTO_TEST_SUITE(step_shares)

BOOST_AUTO_TEST_CASE(of_a_file_and_options) {
  std::string text =
      "[train]\nlogging_steps = 0.05\nmax_steps = 30\n[optimizer]\nsave_steps = 0.25\n[checkpoint]\neval_steps = 0.5\n";
  std::vector<Option> overrides{{"train.eval_steps", "0.1"}, {"learning_rate", "0.5"}};
  const StepShares shares = take_step_shares(text, overrides, "run.ini");
  BOOST_TEST(shares.logging_steps.value() == 0.05);
  BOOST_TEST(shares.save_steps.value() == 0.25);  // in any section, as other names
  BOOST_TEST(shares.eval_steps.value() == 0.1);
  BOOST_TEST(overrides.size() == 1U);
  Config config = parse(text, overrides, "run.ini");
  BOOST_TEST(config.train.max_steps == 30);
  apply_step_shares(shares, 30, config);
  BOOST_TEST(config.train.logging_steps == 2);  // 1.5, rounded up
  BOOST_TEST(config.checkpoint.save_steps == 8);
  BOOST_TEST(config.train.eval_steps == 3);
  apply_step_shares({.save_steps = 0.01, .eval_steps = {}, .logging_steps = {}}, 30, config);
  BOOST_TEST(config.checkpoint.save_steps == 1);
}

BOOST_AUTO_TEST_CASE(what_is_no_share_stays) {
  const std::string all = "[train]\nlogging_steps = 5\neval_steps = none\n[checkpoint]\nsave_steps = 1.5\n";
  std::string text = all;
  std::vector<Option> overrides;
  BOOST_TEST(take_step_shares(text, overrides, "run.ini").is_empty());
  BOOST_TEST(text == all);
}

BOOST_AUTO_TEST_CASE(later_ones_win) {
  std::string text = "[train]\nlogging_steps = 0.05\n";
  std::vector<Option> overrides{{"logging_steps", "7"}};
  BOOST_TEST(take_step_shares(text, overrides, "run.ini").is_empty());
  BOOST_TEST(parse(text, overrides, "run.ini").train.logging_steps == 7);
  std::vector<std::vector<PlacedOption>> sources{{{{"save_steps", "500"}, "in a.yaml:1"}},
                                                 {{{"save_steps", "0.2"}, "on the command line"}}};
  BOOST_TEST(take_step_shares(sources).save_steps.value() == 0.2);
  BOOST_TEST(sources[1].empty());
  BOOST_TEST(to_ini(StepShares{.save_steps = 0.2, .eval_steps = {}, .logging_steps = {}}) ==
             "[checkpoint]\nsave_steps = 0.2\n");
}

BOOST_AUTO_TEST_SUITE_END()
