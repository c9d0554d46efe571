// SPDX-License-Identifier: Apache-2.0
// Products in fp8 on meshes: the same bits every time, something other than float32, and a run that stays near the one
// in float32, as far on a mesh as on one rank.

#include <string>

#include "equivalence/baselines.hpp"
#include "equivalence/trajectory.hpp"
#include "sft/config/values.hpp"
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
    {{2, 1, 1, 2}, Family::llama, true},
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

}  // namespace

BOOST_AUTO_TEST_SUITE(fp8)

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
      BOOST_TEST(worst.grad_norm <= 0.2, name);
      BOOST_TEST(worst.loss >= 1e-4, name);  // or nothing was rounded
      BOOST_TEST(has_same_bits(found, run(c, fp8)), name);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
