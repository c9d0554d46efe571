// SPDX-License-Identifier: Apache-2.0
// Ten training steps on every mesh of the table are those of one rank: same seed, same data, accumulation 1 and 3.

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "equivalence/baselines.hpp"
#include "equivalence/lone_runs.hpp"
#include "equivalence/trajectory.hpp"
#include "sft/config/values.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(meshes)

namespace {

using namespace sft;
using test::session;

using test::Deviation;

/// The meshes of all ranks.
std::vector<test::MeshCase> own_cases() { return test::meshes_of(session().world().size()); }

const test::Baselines& baselines() {
  static const test::Baselines all = [] {
    std::vector<test::Task> tasks;
    for (const test::MeshCase& mesh_case : own_cases()) tasks.push_back(task_of(mesh_case));
    return test::Baselines(tasks, session());
  }();
  return all;
}

config::Parallel parallel_of(const test::MeshCase& mesh_case) {
  config::Parallel parallel;
  parallel.reshard_after_forward = mesh_case.reshard;
  return parallel;
}

template <class Check>
void for_each_mesh(config::Precision precision, const Check& check) {
  for (const test::MeshCase& mesh_case : own_cases()) {
    const test::Mesh mesh(session().world(), mesh_case.layout, test::model_of(mesh_case.family));
    for (const int accumulation : test::accumulations) {
      const test::Trajectory trajectory =
          test::train(task_of(mesh_case), parallel_of(mesh_case), accumulation, precision, mesh, session());
      const test::Trajectory& baseline = baselines().of(task_of(mesh_case));
      const Deviation worst = test::deviation(trajectory, baseline);
      const std::string name = mesh_case.layout.describe() + ", accumulation " + std::to_string(accumulation);
      BOOST_TEST_MESSAGE(name << ": loss " << worst.loss << ", grad norm " << worst.grad_norm);
      BOOST_TEST_CONTEXT(name) { check(trajectory, baseline, worst); }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(float32_trains_like_one_rank) {
  for_each_mesh(config::Precision::fp32, [](const auto& trajectory, const auto& baseline, const Deviation& worst) {
    BOOST_TEST(worst.loss <= 1e-5);
    BOOST_TEST(worst.grad_norm <= 1e-4);
    for (std::size_t step = 0; step < baseline.size(); ++step) {
      BOOST_TEST(trajectory[step].num_tokens == baseline[step].num_tokens);
      BOOST_TEST(trajectory[step].num_target_tokens == baseline[step].num_target_tokens);
      BOOST_TEST(trajectory[step].model_flops == baseline[step].model_flops);
      BOOST_TEST(std::abs(trajectory[step].entropy - baseline[step].entropy) <= 1e-4);
      // Two logits that are equal to rounding may change places: one target of some hundreds.
      BOOST_TEST(std::abs(trajectory[step].mean_token_accuracy - baseline[step].mean_token_accuracy) <= 0.01);
    }
  });
}

// bfloat16 has 8 bits of mantissa: every product's inputs are off by up to 2^-9 = 0.002, at random, and the loss is a
// mean over hundreds of targets, so its own error is some times 0.001. Updates of that quality drift apart over the
// steps; the bounds leave a factor of about three to what is measured.
BOOST_AUTO_TEST_CASE(bf16_trains_like_one_rank_in_float32) {
  for_each_mesh(config::Precision::bf16, [](const auto&, const auto&, const Deviation& worst) {
    BOOST_TEST(worst.loss <= 3e-3);
    BOOST_TEST(worst.grad_norm <= 3e-2);
  });
}

// Lion moves every element by the whole rate, in the direction of a sign, so an element whose direction is zero to
// rounding goes the other way on another mesh: 2 x rate in some of thousands of elements. Muon rounds the directions of
// matrices to bf16, whose last bits its iteration enlarges where a matrix has small singular values.
BOOST_AUTO_TEST_CASE(other_optimizers_train_like_one_rank) {
  const auto config_of = [](config::OptimizerKind optim) {
    config::Config config;
    config.optimizer.optim = optim;
    config.train.precision = config::Precision::fp32;
    return config;
  };
  constexpr std::array optimizers{std::pair{config::OptimizerKind::sgd, 1e-5},
                                  std::pair{config::OptimizerKind::lion, 1e-3},
                                  std::pair{config::OptimizerKind::muon, 1e-4}};
  test::LoneRuns alone;
  for (const test::MeshCase& mesh_case : own_cases()) {
    for (const auto& [optim, bound] : optimizers) {
      alone.add(task_of(mesh_case), config::write(optim), config_of(optim));
    }
  }
  alone.train(session());
  for (const test::MeshCase& mesh_case : own_cases()) {
    const test::Task task = task_of(mesh_case);
    const test::Mesh mesh(session().world(), mesh_case.layout, test::model_of(mesh_case.family));
    for (const auto& [optim, bound] : optimizers) {
      config::Config config = config_of(optim);
      config.parallel = parallel_of(mesh_case);
      const Deviation worst =
          test::deviation(test::train(task, config, mesh, session()), alone.of(task, config::write(optim)));
      BOOST_TEST_MESSAGE(mesh_case.layout.describe() << ": loss " << worst.loss << ", grad norm " << worst.grad_norm);
      BOOST_TEST(worst.loss <= bound);
      BOOST_TEST(worst.grad_norm <= 10 * bound);
    }
  }
}

// Where a moment lies half way between two codes, to rounding, it gets the other one on another mesh: an error of some
// hundredths of it, in some of thousands.
BOOST_AUTO_TEST_CASE(moments_in_8_bits_train_like_one_rank) {
  const auto task_of_case = [](const test::MeshCase& mesh_case) {
    test::Task task = task_of(mesh_case);
    task.intermediate_size = 192;  // matrices of 30 blocks
    return task;
  };
  config::Config config;
  config.train.precision = config::Precision::fp32;
  test::LoneRuns alone;
  for (const test::MeshCase& mesh_case : own_cases()) {
    config.optimizer.optim = config::OptimizerKind::adamw_torch;
    alone.add(task_of_case(mesh_case), "AdamW", config);
    config.optimizer.optim = config::OptimizerKind::adamw_8bit;
    alone.add(task_of_case(mesh_case), "8 bits", config);
  }
  alone.train(session());
  for (const test::MeshCase& mesh_case : own_cases()) {
    const test::Task task = task_of_case(mesh_case);
    const test::Trajectory& expected = alone.of(task, "8 bits");
    BOOST_TEST(test::deviation(alone.of(task, "AdamW"), expected).loss > 1e-6);  // they are not AdamW's
    for (const int zero_stage : {0, 1, 2, 3}) {
      config.parallel = parallel_of(mesh_case);
      config.parallel.zero_stage = zero_stage;
      const test::Mesh mesh(session().world(), mesh_case.layout, task.model(), config.parallel);
      const Deviation worst = test::deviation(test::train(task, config, mesh, session()), expected);
      BOOST_TEST_MESSAGE(mesh_case.layout.describe()
                         << ", stage " << zero_stage << ": loss " << worst.loss << ", grad norm " << worst.grad_norm);
      BOOST_TEST(worst.loss <= 1e-4);
      BOOST_TEST(worst.grad_norm <= 1e-3);
    }
  }
}

// Sums over a matrix are float64, so its factors hardly know how it is cut.
BOOST_AUTO_TEST_CASE(adafactor_trains_like_one_rank) {
  const auto task_of_case = [](const test::MeshCase& mesh_case, bool use_peft) {
    test::Task task = task_of(mesh_case);
    task.use_peft = use_peft;
    return task;
  };
  config::Config config;
  config.train.precision = config::Precision::fp32;
  test::LoneRuns alone;
  for (const test::MeshCase& mesh_case : own_cases()) {
    for (const bool use_peft : {false, true}) {
      config.optimizer.optim = config::OptimizerKind::adamw_torch;
      alone.add(task_of_case(mesh_case, use_peft), "AdamW", config);
      config.optimizer.optim = config::OptimizerKind::adafactor;
      alone.add(task_of_case(mesh_case, use_peft), "Adafactor", config);
    }
  }
  alone.train(session());
  for (const test::MeshCase& mesh_case : own_cases()) {
    for (const bool use_peft : {false, true}) {
      const test::Task task = task_of_case(mesh_case, use_peft);
      const test::Trajectory& expected = alone.of(task, "Adafactor");
      BOOST_TEST(test::deviation(alone.of(task, "AdamW"), expected).loss > 1e-6);
      for (const int zero_stage : {0, 1, 2, 3}) {
        config.parallel = parallel_of(mesh_case);
        config.parallel.zero_stage = zero_stage;
        const test::Mesh mesh(session().world(), mesh_case.layout, task.model(), config.parallel);
        const Deviation worst = test::deviation(test::train(task, config, mesh, session()), expected);
        BOOST_TEST_MESSAGE(mesh_case.layout.describe() << ", stage " << zero_stage << (use_peft ? ", adapters" : "")
                                                       << ": loss " << worst.loss << ", grad norm " << worst.grad_norm);
        BOOST_TEST(worst.loss <= 1e-5);
        BOOST_TEST(worst.grad_norm <= 1e-4);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_batch_without_a_target_is_a_step_of_zeros) {
  for (const test::MeshCase& mesh_case : own_cases()) {
    const train::StepResult& result = baselines().of(task_of(mesh_case))[test::step_without_target];
    BOOST_TEST(result.loss == 0.0);
    BOOST_TEST(result.grad_norm == 0.0);
    BOOST_TEST(result.num_target_tokens == 0);
    BOOST_TEST(result.num_tokens > 0);
  }
}

BOOST_AUTO_TEST_CASE(the_same_seed_twice_is_bit_identical) {
  const test::MeshCase last = own_cases().back();
  const test::Mesh mesh(session().world(), last.layout, test::model_of(last.family));
  for (const config::Precision precision : {config::Precision::fp32, config::Precision::bf16}) {
    const auto run = [&] { return test::train(task_of(last), {}, 3, precision, mesh, session()); };
    const test::Trajectory first = run(), second = run();
    for (std::size_t step = 0; step < first.size(); ++step) {
      BOOST_TEST(first[step].loss == second[step].loss);
      BOOST_TEST(first[step].grad_norm == second[step].grad_norm);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
