// SPDX-License-Identifier: Apache-2.0
#include "experts/expert_runs.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <span>

#include "support/awkward_data.hpp"

namespace sft::test {

config::Model small_expert_model() {
  config::Model model = small_qwen3();
  model.num_experts = 8;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 16;
  model.norm_topk_prob = true;
  model.router_aux_loss_coef = 0.01;
  return model;
}

config::Config expert_config() {
  config::Config config;
  config.model = small_expert_model();
  config.train.precision = config::Precision::fp32;
  config.optimizer.adam_epsilon = 1e-6;  // tests/equivalence/trajectory.cpp says why
  config.optimizer.max_grad_norm = 1.0;
  return config;
}

StepNumbers train_experts(config::Config config, const Mesh& mesh, const comm::Session& session, std::int64_t end,
                          std::int64_t first, const std::function<void(EngineFixture&)>& begun,
                          const std::function<void(EngineFixture&)>& ended) {
  config.train.per_device_train_batch_size =
      expert_global_rows / mesh.place.data_size() / config.train.gradient_accumulation_steps;
  EngineFixture fixture(config, expert_max_length, mesh, session);
  fixture.engine().initialize();
  begun(fixture);
  StepNumbers numbers;
  for (std::int64_t step = first; step < end; ++step) {
    const auto rows = make_awkward_rows(expert_global_rows, expert_max_length, static_cast<std::uint64_t>(step));
    const train::StepResult result = fixture.step(rows, step, 3e-3);
    numbers.insert(numbers.end(), {result.loss, result.grad_norm});
  }
  ended(fixture);
  return numbers;
}

std::vector<double> by_first_rank(const comm::Session& session, std::size_t num_numbers,
                                  const std::function<std::vector<double>()>& work) {
  std::vector<double> numbers(num_numbers);
  if (session.world().rank() == 0) numbers = work();
  session.world().sum(std::span<double>(numbers));
  return numbers;
}

double relative_distance(double value, double expected) {
  if (value == expected) return 0.0;
  const double relative = std::abs(value - expected) / std::abs(expected);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

void check_steps(const std::string& name, const StepNumbers& found, const StepNumbers& expected, double tolerance) {
  BOOST_TEST_REQUIRE(found.size() == expected.size());
  double loss = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < found.size(); i += 2) {
    loss = std::max(loss, relative_distance(found[i], expected[i]));
    norm = std::max(norm, relative_distance(found[i + 1], expected[i + 1]));
  }
  BOOST_TEST_MESSAGE(name << ": loss " << loss << ", grad norm " << norm);
  BOOST_TEST(loss <= tolerance, name << ": loss off by " << loss);
  BOOST_TEST(norm <= 10 * tolerance, name << ": gradient norm off by " << norm);
}

}  // namespace sft::test
