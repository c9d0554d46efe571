// SPDX-License-Identifier: Apache-2.0
// Loss weights count by their ratios, also where the inverse of their sum is more than float32 holds.

#include <cmath>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(tiny_weights)

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 32;

std::vector<rows::Row> make_rows(int num_rows, float weight) {
  rows::Row row{std::vector<std::int32_t>(max_length), std::vector<float>(max_length, weight), {max_length}};
  for (std::int64_t t = 0; t < max_length; ++t) {
    row.tokens[t] = static_cast<std::int32_t>((t * t * 17 + 5) % test::small_vocab_size);
  }
  return std::vector<rows::Row>(num_rows, row);
}

train::StepResult step_with(float weight, config::Precision precision) {
  const int num_ranks = session().world().size();
  config::Config config;
  config.model = test::small_qwen2();
  config.train.precision = precision;
  config.train.per_device_train_batch_size = 1;
  const test::Mesh mesh(session().world(), {{Axis::dp_shard, num_ranks}}, config.model);
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  return fixture.step(make_rows(num_ranks, weight), 0, 1e-3);
}

}  // namespace

BOOST_AUTO_TEST_CASE(equal_weights_of_any_size_train_alike) {
  for (const config::Precision precision : {config::Precision::fp32, config::Precision::bf16}) {
    const train::StepResult expected = step_with(1.0F, precision);
    for (const float weight : {1e-42F, 1e-45F, 1e38F}) {
      const train::StepResult result = step_with(weight, precision);
      BOOST_TEST_CONTEXT("weight " << weight) {
        BOOST_TEST(std::abs(result.loss - expected.loss) <= 1e-6 * expected.loss);
        BOOST_TEST(std::abs(result.grad_norm - expected.grad_norm) <= 1e-5 * expected.grad_norm);
        BOOST_TEST(result.num_target_tokens == expected.num_target_tokens);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
