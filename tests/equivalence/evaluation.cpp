// SPDX-License-Identifier: Apache-2.0
// Evaluation on every mesh of the table: the numbers of one rank, those of training on the same rows, and no trace in
// the steps after it. The rows fill the last batch of no mesh.

#include "train/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "equivalence/mesh_table.hpp"
#include "sft/core/error.hpp"
#include "sft/rank/datasets.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(evaluation)

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 96, short_length = 41;

/// Where there is tp, tokens are cut over it with Qwen3.
config::Config config_for(const test::MeshCase& mesh_case, const test::Mesh& mesh, config::Precision precision) {
  config::Config config;
  config.model = test::model_of(mesh_case.family);
  config.parallel.dp_replicate_size = mesh.place.size(Axis::dp_replicate);
  config.parallel.dp_shard_size = mesh.place.size(Axis::dp_shard);
  config.parallel.tp_size = mesh.place.size(Axis::tp);
  config.parallel.tp_sequence_parallel = mesh_case.family == test::Family::qwen3;
  config.parallel.reshard_after_forward = mesh_case.reshard;
  config.train.precision = precision;
  config.train.per_device_train_batch_size = 2;
  return config;
}

/// Rows as a data set of files.
struct Data {
  Data(const std::vector<rows::Row>& train_rows, const std::vector<rows::Row>& eval_rows) {
    test::write_packed_file(folder.file("train.h5"), train_rows, test::small_vocab_size);
    test::write_packed_file(folder.file("eval.h5"), eval_rows, test::small_vocab_size);
    datasets.emplace(rank::Datasets{.train = rows::PackedDataset({folder.file("train.h5")}),
                                    .eval = rows::PackedDataset({folder.file("eval.h5")})});
  }

  test::TemporaryFolder folder;
  std::optional<rank::Datasets> datasets;
};

int never(std::int64_t /*done*/, std::int64_t /*all*/) { return 0; }

train::EvalResult evaluate(test::EngineFixture& fixture, const Data& data) {
  const rows::LoaderPlan plan = rank::eval_loader_plan(fixture.config(), fixture.mesh().place, *data.datasets);
  const train::Evaluation evaluation =
      train::evaluate(fixture.engine(), *data.datasets->eval, plan, 0, fixture.mesh().groups, never);
  BOOST_TEST(evaluation.signal == 0);
  return evaluation.result;
}

struct Outcome {
  std::vector<double> numbers;  ///< of the steps: losses and gradient norms
  std::vector<train::EvalResult> evaluations;
};

/// Trains three steps; with `data`, evaluates before each and after the last.
Outcome train_steps(const test::MeshCase& mesh_case, const test::Mesh& mesh, config::Precision precision,
                    const Data* data) {
  config::Config config = config_for(mesh_case, mesh, precision);
  config.train.gradient_accumulation_steps = 2;
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  Outcome outcome;
  const auto evaluate_once = [&] {
    if (data != nullptr) outcome.evaluations.push_back(evaluate(fixture, *data));
  };
  for (std::int64_t step = 0; step < 3; ++step) {
    evaluate_once();
    const std::int64_t num_rows = 4 * mesh.place.data_size();
    const train::StepResult result =
        fixture.step(test::make_awkward_rows(num_rows, max_length, static_cast<std::uint64_t>(step)), step, 3e-3);
    outcome.numbers.insert(outcome.numbers.end(), {result.loss, result.grad_norm});
  }
  evaluate_once();
  return outcome;
}

template <class Check>
void for_each_mesh(const Check& check) {
  for (const test::MeshCase& mesh_case : test::meshes_of(session().world().size())) {
    const test::Mesh mesh(session().world(), mesh_case.layout, test::model_of(mesh_case.family));
    BOOST_TEST_CONTEXT(mesh_case.layout.describe()) { check(mesh_case, mesh); }
  }
}

double relative(double value, double expected) { return std::abs(value - expected) / std::abs(expected); }

}  // namespace

BOOST_AUTO_TEST_CASE(every_mesh_finds_what_one_rank_finds) {
  const Data data(test::make_awkward_rows(1, max_length, 1), test::make_awkward_rows(23, short_length, 9));
  for_each_mesh([&](const test::MeshCase& mesh_case, const test::Mesh& mesh) {
    const auto result_on = [&](const test::Mesh& on, config::Precision precision) {
      const config::Config config = config_for(mesh_case, on, precision);
      test::EngineFixture fixture(config, max_length, on, session());
      fixture.engine().initialize();
      return evaluate(fixture, data);
    };
    const test::Mesh lone = test::make_lone_mesh(test::model_of(mesh_case.family));
    const train::EvalResult expected = result_on(lone, config::Precision::fp32);
    BOOST_TEST(expected.num_target_tokens == data.datasets->eval->num_target_tokens());
    BOOST_TEST(expected.mean_token_accuracy > 0.0);
    const train::EvalResult found = result_on(mesh, config::Precision::fp32);
    BOOST_TEST(relative(found.loss, expected.loss) <= 1e-6);
    BOOST_TEST(relative(found.entropy, expected.entropy) <= 1e-6);
    BOOST_TEST(found.num_target_tokens == expected.num_target_tokens);
    // Two logits that are equal to rounding may change places.
    const double one_target = 1.0 / static_cast<double>(expected.num_target_tokens);
    BOOST_TEST(std::abs(found.mean_token_accuracy - expected.mean_token_accuracy) <= 1.5 * one_target);
    BOOST_TEST(relative(result_on(mesh, config::Precision::bf16).loss, expected.loss) <= 3e-3);
  });
}

BOOST_AUTO_TEST_CASE(steps_are_the_same_bits_with_evaluations_between) {
  const Data data(test::make_awkward_rows(1, max_length, 1), test::make_awkward_rows(5, max_length, 9));
  for_each_mesh([&](const test::MeshCase& mesh_case, const test::Mesh& mesh) {
    for (const config::Precision precision : {config::Precision::fp32, config::Precision::bf16}) {
      const Outcome plain = train_steps(mesh_case, mesh, precision, nullptr);
      const Outcome evaluated = train_steps(mesh_case, mesh, precision, &data);
      BOOST_TEST(evaluated.numbers == plain.numbers, boost::test_tools::per_element());
      BOOST_TEST(evaluated.evaluations.back().loss < evaluated.evaluations.front().loss * 1.5);
      BOOST_TEST(evaluated.evaluations.back().loss != evaluated.evaluations.front().loss);
    }
  });
}

BOOST_AUTO_TEST_CASE(the_loss_is_that_of_a_step_on_the_same_rows) {
  for_each_mesh([&](const test::MeshCase& mesh_case, const test::Mesh& mesh) {
    config::Config config = config_for(mesh_case, mesh, config::Precision::fp32);
    config.train.gradient_accumulation_steps = 2;
    const std::vector<rows::Row> rows = test::make_awkward_rows(4 * mesh.place.data_size(), max_length, 2);
    const Data data(rows, rows);
    test::EngineFixture fixture(config, max_length, mesh, session());
    fixture.engine().initialize();
    const train::EvalResult found = evaluate(fixture, data);
    const train::StepResult step = fixture.step(rows, 0, 0.0);
    BOOST_TEST(relative(found.loss, step.loss) <= 1e-12);
    BOOST_TEST(relative(found.entropy, step.entropy) <= 1e-12);
    BOOST_TEST(found.mean_token_accuracy == step.mean_token_accuracy);
    BOOST_TEST(found.num_target_tokens == step.num_target_tokens);
  });
}

BOOST_AUTO_TEST_CASE(a_signal_on_one_rank_stops_all) {
  const Data data(test::make_awkward_rows(1, max_length, 1), test::make_awkward_rows(300, short_length, 9));
  for_each_mesh([&](const test::MeshCase& mesh_case, const test::Mesh& mesh) {
    const config::Config config = config_for(mesh_case, mesh, config::Precision::fp32);
    test::EngineFixture fixture(config, max_length, mesh, session());
    fixture.engine().initialize();
    const bool is_last_rank = session().world().rank() + 1 == session().world().size();
    std::int64_t num_seen = 0;
    const auto stop_at_third = [&](std::int64_t done, std::int64_t all) {
      BOOST_TEST(done == num_seen++);
      BOOST_TEST(all > 3);
      return is_last_rank && done == 2 ? 15 : 0;
    };
    const train::Evaluation evaluation = train::evaluate(
        fixture.engine(), *data.datasets->eval, rank::eval_loader_plan(fixture.config(), mesh.place, *data.datasets), 0,
        mesh.groups, stop_at_third);
    BOOST_TEST(evaluation.signal == 15);
    BOOST_TEST(num_seen == 3);
  });
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_no_number_names_the_rank_and_its_rows) {
  constexpr std::int32_t bad_token = 7, common_token = 3;
  const int num_ranks = session().world().size();
  config::Config config;
  config.model = test::small_qwen2();  // untied: the table is read for tokens alone
  config.parallel.dp_shard_size = num_ranks;
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = 1;
  const test::Mesh mesh(session().world(), {{Axis::dp_shard, num_ranks}}, config.model);
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  test::LogicalTensors parameters = fixture.gather_parameters();
  const auto hidden_size = static_cast<std::size_t>(config.model.hidden_size);
  parameters.at("model.embed_tokens.weight")[bad_token * hidden_size] = std::numeric_limits<float>::quiet_NaN();
  fixture.set_parameters(parameters);

  std::vector<rows::Row> rows;
  for (int row = 0; row < 3 * num_ranks; ++row) {
    const std::int32_t token = row == 2 * num_ranks + 1 ? bad_token : common_token;  // the third batch of rank 1
    rows.push_back({std::vector<std::int32_t>(max_length, token),
                    std::vector<float>(max_length, 1.0F),
                    {static_cast<std::int32_t>(max_length)}});
  }
  const Data data(rows, rows);
  const auto names_it = [&](const Error& error) {
    BOOST_TEST_MESSAGE(error.what());
    return error.status() == ExitStatus::numerical &&
           std::string(error.what())
               .starts_with("eval_loss nan after step 12 is not finite (first seen on rank 1; rank 1 read row " +
                            std::to_string(2 * num_ranks + 1) + " of data.eval_files then)");
  };
  BOOST_CHECK_EXCEPTION((void)train::evaluate(fixture.engine(), *data.datasets->eval,
                                              rank::eval_loader_plan(fixture.config(), mesh.place, *data.datasets), 12,
                                              mesh.groups, never),
                        Error, names_it);
}

BOOST_AUTO_TEST_SUITE_END()
