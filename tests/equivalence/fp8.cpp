// SPDX-License-Identifier: Apache-2.0
// Products in fp8 on meshes: gradients of one rank's, as far from float32's as the formats round, and runs of the same
// bits every time that stay near the one in float32.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "equivalence/baselines.hpp"
#include "equivalence/trajectory.hpp"
#include "sft/config/values.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

namespace {

using namespace sft;
using config::Fp8;
using test::Family;
using test::session;

struct Case {
  test::Layout layout;  ///< dp_replicate x dp_shard x sp x tp
  Family family;
  bool use_peft = false;
};

const std::vector<Case> cases{
    {{1, 1, 1, 1}, Family::qwen3},       {{1, 1, 1, 1}, Family::llama, true}, {{1, 2, 1, 1}, Family::qwen3},
    {{1, 1, 2, 1}, Family::qwen2},       {{1, 1, 1, 2}, Family::llama},       {{2, 1, 1, 1}, Family::llama, true},
    {{1, 2, 1, 2}, Family::qwen2},       {{1, 1, 2, 2}, Family::llama},       {{1, 2, 2, 1}, Family::qwen3},
    {{2, 1, 1, 2}, Family::llama, true}, {{1, 1, 1, 2}, Family::qwen3},       {{1, 1, 1, 4}, Family::llama},
    {{1, 1, 1, 4}, Family::olmo2},       {{1, 1, 2, 2}, Family::gemma3},
};

test::Task task_of(const Case& c) {
  return {.family = c.family, .global_rows = test::rows_per_step(c.layout), .use_peft = c.use_peft};
}

test::Trajectory run(const Case& c, Fp8 fp8) {
  const test::Task task = task_of(c);
  config::Config config;
  config.train.precision = config::Precision::fp32;
  config.train.fp8 = fp8;
  const test::Mesh mesh(session().world(), c.layout, task.model(), config.parallel);
  return test::train(task, config, mesh, session());
}

bool has_same_bits(const test::Trajectory& a, const test::Trajectory& b) {
  for (std::size_t step = 0; step < a.size(); ++step) {
    if (a[step].loss != b[step].loss || a[step].grad_norm != b[step].grad_norm) return false;
  }
  return a.size() == b.size();
}

struct FirstStep {
  double loss;
  test::LogicalTensors gradients;
};

/// Of whole models. Collective over the mesh.
FirstStep first_step(const test::Task& task, Fp8 fp8, const test::Mesh& mesh) {
  constexpr std::int64_t max_length = 96;
  config::Config config;
  config.model = task.model();
  config.train.precision = config::Precision::fp32;
  config.train.fp8 = fp8;
  config.train.per_device_train_batch_size = task.global_rows / mesh.place.data_size();
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  const double loss = fixture.step(test::make_awkward_rows(task.global_rows, max_length, 0), 0, 1e-3).loss;
  return {loss, fixture.gather_gradients()};
}

/// The norm of the difference of all gradients, relative to that of the second ones.
double distance(const test::LogicalTensors& found, const test::LogicalTensors& expected) {
  double squares = 0.0, all = 0.0;
  for (const auto& [name, numbers] : expected) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      squares += std::pow(found.at(name)[i] - numbers[i], 2);
      all += std::pow(numbers[i], 2);
    }
  }
  return std::sqrt(squares / all);
}

/// The root of the mean square by which rounding moves a number, relative to it, where numbers of all sizes are as
/// likely: half a digit of x in [1, 2) is 2^-(bits + 1), its errors are uniform, and the mean of 1 / x^2 is 3 / (8 ln
/// 2).
double mean_error(int mantissa_bits) {
  return std::ldexp(1.0, -mantissa_bits - 1) / std::sqrt(3.0) * std::sqrt(3.0 / (8.0 * std::log(2.0)));
}

/// What gradients of the first layers are away from exact ones if each of the two operands of the four products of a
/// layer, forward and back to there, and of one more for the gradient itself, adds its error.
double expected_distance(std::int64_t num_layers) {
  const double e4m3 = std::pow(mean_error(3), 2), e5m2 = std::pow(mean_error(2), 2);
  const auto num_products = static_cast<double>(4 * num_layers);
  return std::sqrt(num_products * 2.0 * e4m3 + (num_products + 1.0) * (e4m3 + e5m2));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fp8)

BOOST_AUTO_TEST_CASE(gradients_of_the_first_step_are_those_of_one_rank) {
  for (const Case& c : cases) {
    if (c.layout.size() != session().world().size() || c.use_peft) continue;
    const test::Task task = task_of(c);
    const test::Mesh lone = test::make_lone_mesh(task.model()), mesh(session().world(), c.layout, task.model());
    const FirstStep exact = first_step(task, Fp8::none, lone);
    for (const Fp8 fp8 : {Fp8::tensorwise, Fp8::blockwise}) {
      const FirstStep one = first_step(task, fp8, lone), found = first_step(task, fp8, mesh);
      const double from_exact = distance(one.gradients, exact.gradients),
                   expected = expected_distance(task.model().num_hidden_layers);
      const double from_one = distance(found.gradients, one.gradients);
      BOOST_TEST_CONTEXT(c.layout.describe() << ", " << config::write(fp8)) {
        BOOST_TEST_MESSAGE(c.layout.describe() << ", " << config::write(fp8) << ": from one rank " << from_one
                                               << ", from float32 " << from_exact << ", expected " << expected);
        BOOST_TEST(from_exact <= 1.5 * expected);
        BOOST_TEST(from_exact >= 0.5 * expected);
        // Sums in another order move a number to the next code now and then: some thousand numbers have 2^-3 / 50 of
        // it.
        BOOST_TEST(from_one <= 2e-3);
        BOOST_TEST(std::abs(found.loss - one.loss) <= 1e-6 * one.loss);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_stays_near_the_one_in_float32) {
  std::vector<test::Task> tasks;
  for (const Case& c : cases) {
    if (c.layout.size() == session().world().size()) tasks.push_back(task_of(c));
  }
  const test::Baselines baselines(tasks, session());
  for (const Case& c : cases) {
    if (c.layout.size() != session().world().size()) continue;
    for (const Fp8 fp8 : {Fp8::tensorwise, Fp8::blockwise}) {
      const test::Trajectory& exact = baselines.of(task_of(c));
      const test::Trajectory found = run(c, fp8);
      const test::Deviation worst = test::deviation(found, exact);
      const std::string name = c.layout.describe() + ", " + config::write(fp8) + (c.use_peft ? ", adapters" : "");
      BOOST_TEST_MESSAGE(name << ": loss " << worst.loss << ", grad norm " << worst.grad_norm);
      BOOST_TEST(worst.loss <= 0.02, name);
      BOOST_TEST(worst.loss >= 1e-4, name);  // or nothing was rounded
      BOOST_TEST(has_same_bits(found, run(c, fp8)), name);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
