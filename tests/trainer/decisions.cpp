// SPDX-License-Identifier: Apache-2.0
// What a run decides on its way, by the whole program: which checkpoint is the best, when to stop early, when to
// evaluate and to save, which steps to leave out. Decisions survive a restart, bit for bit.

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::check_done;
using test::check_equal;
using test::run_cases;
using test::RunCase;
namespace fs = std::filesystem;
using Change = std::function<void(config::Config&)>;
using Steps = std::vector<std::int64_t>;

const std::vector<RunCase> two_meshes{run_cases[0], run_cases[1]};

struct DecisionWorkshop : test::EvaluationWorkshop {
  /// Runs to its end, which must have this status.
  void run(const RunCase& mesh, const std::string& output, std::int64_t max_steps, const std::string& resume,
           const Change& change, ExitStatus expected = ExitStatus::done) const {
    test::TrainerProgram program = start(mesh, output, max_steps, resume, change);
    const int status = program.wait();
    BOOST_TEST_REQUIRE(status == static_cast<int>(expected), output << " ended with status " << status << "\n"
                                                                    << log_of(output));
  }

  /// Evaluates and saves after every step. The best model is the one with the highest loss, which a run soon leaves.
  [[nodiscard]] Change every_step(const Change& more = {}) const {
    return [=, this](config::Config& config) {
      config.data.eval_files = {path("eval.h5")};
      config.train.eval_steps = 1;
      config.train.load_best_model_at_end = true;
      config.train.greater_is_better = true;
      config.checkpoint.save_steps = 1;
      config.optimizer.learning_rate = 0.1;
      config.optimizer.lr_scheduler_type = config::Scheduler::constant;
      if (more) more(config);
    };
  }

  [[nodiscard]] Steps saved_steps(const std::string& output) const {
    Steps steps;
    for (const std::string& folder : checkpoint::list(path(output))) {
      steps.push_back(checkpoint::read_header(folder).position.step);
    }
    return steps;
  }
  [[nodiscard]] Steps evaluated_steps(const std::string& output) const {
    Steps steps;
    for (const auto& [step, evaluation] : test::read_evaluations(path(output))) steps.push_back(step);
    return steps;
  }
  /// The step with the highest eval_loss.
  [[nodiscard]] std::int64_t best_step(const std::string& output) const {
    const auto evaluations = test::read_evaluations(path(output));
    return std::ranges::max_element(evaluations, {}, [](const auto& line) { return line.second.loss; })->first;
  }
  [[nodiscard]] checkpoint::Decisions decisions_at(const std::string& output, std::int64_t step) const {
    return checkpoint::read_header(checkpoint::path_of(path(output), step)).position.decisions;
  }
  [[nodiscard]] bool says(const std::string& output, const std::string& words) const {
    return log_of(output).find(words) != std::string::npos;
  }
};

void begin_with(config::Config& config, const std::string& model_folder) {
  config.model.model_name_or_path = model_folder;
  config.model.max_position_embeddings = 96;  // the length of the rows that the model was made with
}

/// Makes a model folder whose embedding of `token` is the largest float32, which is Inf in bf16.
void spoil(const std::string& file, std::int32_t token) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  const auto& table = header.at("model.embed_tokens.weight");
  BOOST_TEST_REQUIRE(table.at("dtype") == "F32");
  const auto columns = table.at("shape")[1].get<std::size_t>();
  const std::size_t row = 8 + header_bytes + table.at("data_offsets")[0].get<std::size_t>() + token * columns * 4;
  const float huge = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < columns; ++i) std::memcpy(bytes.data() + row + 4 * i, &huge, sizeof huge);
  std::ofstream(file, std::ios::binary) << bytes;
}

/// The rows of a Workshop, with `token` at the begin of some of them and nowhere else.
std::vector<rows::Row> rows_with_rare(std::int32_t token) {
  std::vector<rows::Row> rows = test::make_awkward_rows(31, 96, 3);
  std::int64_t number = 0;
  for (rows::Row& row : rows) {
    std::ranges::replace(row.tokens, token, token + 1);
    if (!row.document_lengths.empty() && number++ % 9 == 4) row.tokens.front() = token;
  }
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(decisions)

BOOST_DATA_TEST_CASE(a_finished_run_leaves_its_best_model, boost::unit_test::data::make(two_meshes), mesh) {
  const DecisionWorkshop workshop;
  constexpr std::int64_t max_steps = 8;
  workshop.run(mesh, "run", max_steps, "none", workshop.every_step([](config::Config& config) {
    config.checkpoint.save_total_limit = 2;
    config.checkpoint.save_hub_model = config::HubModel::at_end;
  }));
  const std::int64_t best = workshop.best_step("run");
  BOOST_TEST_REQUIRE(best < max_steps);
  BOOST_TEST(workshop.saved_steps("run") == (Steps{best, max_steps}), boost::test_tools::per_element());
  const checkpoint::Decisions decisions = workshop.decisions_at("run", max_steps);
  BOOST_TEST(decisions.best_step == best);
  const double best_loss = test::read_evaluations(workshop.path("run")).at(best).loss;
  BOOST_TEST(*decisions.best_metric == best_loss);
  BOOST_TEST(decisions.num_worse_evaluations == max_steps - best);
  BOOST_TEST(workshop.says("run", "the best model is that of checkpoint-00000" + std::to_string(best)));

  // What it left has the loss of that step, to the bit, and so has what it leaves when it is started once more.
  const auto loss_of_model = [&](const std::string& output) {
    workshop.run(mesh, output, 0, "none", [&](config::Config& config) {
      config.data.eval_files = {workshop.path("eval.h5")};
      begin_with(config, workshop.path("run/model"));
      config.checkpoint.save_hub_model = config::HubModel::never;
    });
    return test::read_evaluations(workshop.path(output)).at(0).loss;
  };
  BOOST_TEST(loss_of_model("again") == best_loss);
  workshop.run(mesh, "run", max_steps, "auto", workshop.every_step([](config::Config& config) {
    config.checkpoint.save_hub_model = config::HubModel::at_end;
  }));
  BOOST_TEST(workshop.says("run", "nothing left to train"));
  BOOST_TEST(loss_of_model("once_more") == best_loss);
}

BOOST_AUTO_TEST_CASE(a_run_of_adapters_leaves_its_best_ones) {
  const DecisionWorkshop workshop;
  constexpr std::int64_t max_steps = 6;
  workshop.run(run_cases[1], "run", max_steps, "none", workshop.every_step([](config::Config& config) {
    config.lora.use_peft = true;
    config.lora.lora_r = 4;
    config.optimizer.learning_rate = 1.0;
  }));
  const std::int64_t best = workshop.best_step("run");
  BOOST_TEST_REQUIRE(best < max_steps);
  BOOST_TEST(workshop.says("run", "the best model is that of checkpoint-00000" + std::to_string(best)));
  BOOST_TEST(fs::exists(workshop.path("run/adapter/adapter_model.safetensors")));
}

BOOST_DATA_TEST_CASE(early_stopping_counts_on_across_a_restart, boost::unit_test::data::make(two_meshes), mesh) {
  const DecisionWorkshop workshop;
  constexpr std::int64_t max_steps = 12;
  const Change patient = workshop.every_step([](config::Config& config) {
    config.train.early_stopping_patience = 3;
    config.train.early_stopping_threshold = 0.01;
  });
  workshop.run(mesh, "whole", max_steps, "none", patient);
  const Steps steps = workshop.evaluated_steps("whole");
  const std::int64_t last = steps.back();
  BOOST_TEST_REQUIRE(last < max_steps);
  BOOST_TEST(workshop.decisions_at("whole", last).num_worse_evaluations == 3);
  BOOST_TEST(workshop.says("whole", "early stopping after step " + std::to_string(last) + " of 12: eval_loss has not"));

  // As if it had been killed with patience for one more.
  workshop.run(mesh, "parts", max_steps, "none", patient);
  fs::remove_all(checkpoint::path_of(workshop.path("parts"), last));
  workshop.run(mesh, "parts", max_steps, "auto", patient);
  check_equal(workshop, "whole", "parts", last);
  BOOST_TEST((workshop.decisions_at("whole", last) == workshop.decisions_at("parts", last)));
  BOOST_TEST((test::read_evaluations(workshop.path("whole")) == test::read_evaluations(workshop.path("parts"))));

  // It has ended; with more patience it goes on.
  workshop.run(mesh, "parts", max_steps, "auto", patient);
  BOOST_TEST(workshop.says("parts", "nothing left to train: " + std::to_string(last) + " of 12 steps are done, and"));
  workshop.run(mesh, "parts", last + 1, "auto",
               workshop.every_step([](config::Config& config) { config.train.early_stopping_patience = 30; }));
  BOOST_TEST(workshop.evaluated_steps("parts").back() == last + 1);
}

BOOST_AUTO_TEST_CASE(evaluations_and_checkpoints_come_as_their_strategies_say) {
  const DecisionWorkshop workshop;
  // 31 rows, 4 a step: an epoch has 8 steps.
  const auto run = [&](const std::string& output, config::EvalStrategy eval, config::SaveStrategy save,
                       config::RowOrder order = config::RowOrder::trl) {
    workshop.run(run_cases[0], output, 18, "none", [&](config::Config& config) {
      config.train.gradient_accumulation_steps = 4;
      config.data.eval_files = {workshop.path("eval.h5")};
      config.data.row_order = order;
      config.train.eval_steps = 5;
      config.train.eval_strategy = eval;
      config.checkpoint.save_strategy = save;
      config.checkpoint.save_steps = 10;
      config.optimizer.learning_rate = 0.05;
      if (save == config::SaveStrategy::best) config.train.metric_for_best_model = config::EvalMetric::loss;
    });
  };
  const auto check = [&](const std::string& output, const Steps& evaluated, const Steps& saved) {
    BOOST_TEST(workshop.evaluated_steps(output) == evaluated, boost::test_tools::per_element());
    BOOST_TEST(workshop.saved_steps(output) == saved, boost::test_tools::per_element());
  };
  run("epochs", config::EvalStrategy::epoch, config::SaveStrategy::epoch);
  check("epochs", {8, 16, 18}, {8, 16, 18});
  run("endless", config::EvalStrategy::epoch, config::SaveStrategy::epoch, config::RowOrder::endless);
  check("endless", {8, 16, 18}, {8, 16, 18});  // 32 and 64 rows: a row and two beyond an epoch
  run("no", config::EvalStrategy::no, config::SaveStrategy::no);
  check("no", {}, {18});
  run("steps", config::EvalStrategy::steps, config::SaveStrategy::steps);
  check("steps", {5, 10, 15, 18}, {10, 18});
  run("best", config::EvalStrategy::steps, config::SaveStrategy::best);
  const auto evaluations = test::read_evaluations(workshop.path("best"));
  Steps best;
  for (double lowest = std::numeric_limits<double>::infinity(); const auto& [step, evaluation] : evaluations) {
    if (evaluation.loss < lowest || step == 18) best.push_back(step);
    lowest = std::min(lowest, evaluation.loss);
  }
  check("best", {5, 10, 15, 18}, best);
}

BOOST_AUTO_TEST_CASE(checkpoints_of_the_model_alone_are_not_gone_on_from_but_a_stopped_run_saves_all) {
  const DecisionWorkshop workshop;
  const Change only_model = [](config::Config& config) {
    config.checkpoint.save_only_model = true;
    config.checkpoint.save_steps = 0;
  };
  workshop.run(run_cases[1], "run", 4, "none", only_model);
  for (const auto& [name, values] : test::read_checkpoint(checkpoint::path_of(workshop.path("run"), 4))) {
    BOOST_TEST(name.starts_with("model/"), name);
  }
  workshop.run(run_cases[1], "run", 8, "auto", only_model, ExitStatus::data);
  BOOST_TEST(workshop.says("run", "holds weights alone (checkpoint.save_only_model)"));
  workshop.run(run_cases[1], "next", 0, "none", [&](config::Config& config) {
    config.model.model_name_or_path = checkpoint::path_of(workshop.path("run"), 4);
  });

  test::TrainerProgram stopped = workshop.start(run_cases[0], "stopped", 100000, "auto", only_model);
  while (stopped.is_running() && test::read_metrics(workshop.path("stopped")).size() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stopped.send(SIGUSR1);
  BOOST_TEST(stopped.wait() == static_cast<int>(ExitStatus::stopped), workshop.log_of("stopped"));
  const std::int64_t step = workshop.saved_steps("stopped").back();
  workshop.run(run_cases[0], "stopped", step + 2, "auto", only_model);
}

BOOST_AUTO_TEST_CASE(the_first_step_has_a_line_where_it_is_asked_for) {
  const DecisionWorkshop workshop;
  workshop.run(run_cases[0], "each", 6, "none", {});
  workshop.run(run_cases[0], "first", 6, "none", [](config::Config& config) {
    config.train.logging_steps = 4;
    config.train.logging_first_step = true;
  });
  const auto each = test::read_metrics(workshop.path("each")), lines = test::read_metrics(workshop.path("first"));
  Steps steps;
  for (const auto& [step, line] : lines) steps.push_back(step);
  BOOST_TEST(steps == (Steps{1, 4, 6}), boost::test_tools::per_element());
  BOOST_TEST(lines.at(1).loss == each.at(1).loss);
  BOOST_TEST(lines.at(4).loss == (each.at(2).loss + each.at(3).loss + each.at(4).loss) / 3.0);
}

BOOST_AUTO_TEST_CASE(a_loss_that_stays_too_high_ends_the_run_without_a_checkpoint) {
  const DecisionWorkshop workshop;
  const auto watch = [&](const std::string& output, double threshold, ExitStatus expected) {
    workshop.run(
        run_cases[1], output, 6, "none",
        [&](config::Config& config) {
          config.train.loss_watchdog_threshold = threshold;
          config.checkpoint.save_steps = 2;
        },
        expected);
  };
  watch("high", 0.01, ExitStatus::numerical);
  BOOST_TEST(workshop.says("high", "above train.loss_watchdog_threshold = 0.01 in 3 steps in a row"));
  BOOST_TEST(test::read_metrics(workshop.path("high")).size() == 3U);
  BOOST_TEST(workshop.saved_steps("high") == (Steps{2}), boost::test_tools::per_element());
  watch("fine", 1000.0, ExitStatus::done);
}

BOOST_DATA_TEST_CASE(steps_that_are_not_finite_are_left_out_also_across_a_restart,
                     boost::unit_test::data::make(two_meshes), mesh) {
  const DecisionWorkshop workshop;
  constexpr std::int64_t max_steps = 20;
  workshop.run(run_cases[0], "made", 0, "none",
               [](config::Config& config) { config.checkpoint.save_hub_model = config::HubModel::at_end; });
  constexpr std::int32_t bad_token = 5;
  spoil(workshop.path("made/model/model.safetensors"), bad_token);
  fs::remove(workshop.path("train.h5"));
  test::write_packed_file(workshop.path("train.h5"), rows_with_rare(bad_token), test::small_vocab_size);
  const auto skipping = [&](std::int64_t limit) {
    return [&workshop, limit](config::Config& config) {
      begin_with(config, workshop.path("made/model"));
      config.train.precision = config::Precision::bf16;
      config.train.nan_policy = config::NanPolicy::skip;
      config.train.nan_skip_limit = limit;
      config.checkpoint.save_hub_model = config::HubModel::never;
    };
  };
  workshop.run(mesh, "whole", max_steps, "none", skipping(10));
  const checkpoint::Decisions decisions = workshop.decisions_at("whole", max_steps);
  BOOST_TEST(decisions.num_skipped_steps > 0);
  BOOST_TEST(decisions.num_skipped_steps < max_steps / 2);
  std::int64_t num_null = 0;
  for (const auto& [step, line] : test::read_metrics(workshop.path("whole"))) {
    if (line.loss >= 0) continue;
    ++num_null;
    BOOST_TEST(workshop.says("whole", "step " + std::to_string(step) + " is left out: loss "));
    BOOST_TEST(line.learning_rate > 0);
  }
  BOOST_TEST(num_null == decisions.num_skipped_steps);

  workshop.run(mesh, "parts", max_steps, "none", skipping(10));
  fs::remove_all(checkpoint::path_of(workshop.path("parts"), max_steps));
  workshop.run(mesh, "parts", max_steps, "auto", skipping(10));
  check_equal(workshop, "whole", "parts", max_steps);
  BOOST_TEST((workshop.decisions_at("parts", max_steps) == decisions));

  workshop.run(mesh, "limit", max_steps, "none", skipping(1), ExitStatus::numerical);
  BOOST_TEST(workshop.says("limit", "that is train.nan_skip_limit in a row"));
}

BOOST_AUTO_TEST_SUITE_END()
