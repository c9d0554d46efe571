// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

#include "apps/sft/next_steps.hpp"

using namespace sft;

BOOST_AUTO_TEST_CASE(a_stopped_run_is_told_how_it_goes_on) {
  config::Config config;
  const auto lines = apps::next_steps(config, ExitStatus::stopped, "output/checkpoint-000100");
  BOOST_TEST_REQUIRE(lines.size() == 1U);
  BOOST_TEST(lines[0].find("--checkpoint.resume_from_checkpoint auto") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(adapters_of_random_weights_have_no_model_to_be_merged_into) {
  config::Config config;
  config.lora.use_peft = true;
  for (const std::string& line : apps::next_steps(config, ExitStatus::done, "output/checkpoint-000100")) {
    BOOST_TEST(line.find("--merge") == std::string::npos, line);
  }
}
