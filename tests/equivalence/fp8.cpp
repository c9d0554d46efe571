// SPDX-License-Identifier: Apache-2.0
// Products in fp8 on meshes: gradients of one rank's, as far from float32's as the formats round, and runs of the same
// bits every time that stay near the one in float32.

#include <cmath>
#include <string>

#include "equivalence/baselines.hpp"
#include "equivalence/trajectory.hpp"
#include "sft/config/values.hpp"
#include "support/awkward_data.hpp"
#include "support/fp8_step.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(fp8)

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
    {{1, 1, 1, 4}, Family::olmo2},       {{1, 1, 2, 2}, Family::gemma3},      {{1, 4, 1, 1}, Family::llama},
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

/// Of whole models. Collective over the mesh.
test::FirstStep first_step(const test::Task& task, Fp8 fp8, const test::Mesh& mesh, config::Config config = {}) {
  constexpr std::int64_t max_length = 96;
  config.model = task.model();
  config.train.fp8 = fp8;
  return test::first_step(config, max_length, test::make_awkward_rows(task.global_rows, max_length, 0), mesh,
                          session());
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_of_the_first_step_are_those_of_one_rank) {
  for (const Case& c : cases) {
    if (c.layout.size() != session().world().size() || c.use_peft) continue;
    const test::Task task = task_of(c);
    const test::Mesh lone = test::make_lone_mesh(task.model()), mesh(session().world(), c.layout, task.model());
    const test::FirstStep exact = first_step(task, Fp8::none, lone);
    const double expected = test::expected_fp8_distance(task.model().num_hidden_layers);
    for (const Fp8 fp8 : {Fp8::tensorwise, Fp8::blockwise}) {
      const test::FirstStep one = first_step(task, fp8, lone), found = first_step(task, fp8, mesh);
      const double from_exact = test::distance(one.gradients, exact.gradients),
                   from_one = test::distance(found.gradients, one.gradients);
      BOOST_TEST_CONTEXT(c.layout.describe() << ", " << config::write(fp8)) {
        BOOST_TEST_MESSAGE("from one rank " << from_one << ", from float32 " << from_exact << " of " << expected);
        BOOST_TEST(from_exact <= 1.5 * expected);
        BOOST_TEST(from_exact >= 0.5 * expected);
        BOOST_TEST(from_one <= test::fp8_mesh_distance);
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

// Without shards whole weights are rounded where they lie. Gradients are sums of the same terms; those of more than two
// ranks come in another order where each rank sums its own shard, and so in float32 they do whatever fp8 gathers.
BOOST_AUTO_TEST_CASE(gathers_of_codes_change_no_bit) {
  for (const Case& c : cases) {
    if (c.layout.size() != session().world().size() || num_ranks(c.layout.sizes(), fsdp_axes) == 1) continue;
    const test::Task task = task_of(c);
    const double apart = num_ranks(c.layout.sizes(), fsdp_axes) == 2 ? 0.0 : 0x1p-23;
    for (const Fp8 fp8 : {Fp8::tensorwise, Fp8::blockwise}) {
      std::vector<test::FirstStep> steps;
      for (const int zero_stage : {0, 1, 3}) {
        config::Config config;
        config.parallel.zero_stage = zero_stage;
        const test::Mesh mesh(session().world(), c.layout, task.model(), config.parallel);
        steps.push_back(first_step(task, fp8, mesh, config));
      }
      for (const test::FirstStep& step : steps) {
        const double distance = test::distance(step.gradients, steps.front().gradients);
        BOOST_TEST_CONTEXT(c.layout.describe() << ", " << config::write(fp8)) {
          BOOST_TEST(step.loss == steps.front().loss);
          BOOST_TEST(distance <= apart);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
