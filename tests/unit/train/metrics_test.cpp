// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sft/train/metrics.hpp"

using namespace sft;

namespace {

train::StepMetrics example(std::int64_t step) {
  train::StepMetrics metrics;
  metrics.step = step;
  metrics.epoch = 1.0 / 3.0;
  metrics.loss = 0.1 + 0.2;
  metrics.grad_norm = 1e-300;
  metrics.learning_rate = 2e-5;
  metrics.num_tokens = 4000 * step;
  metrics.num_target_tokens = 1000 * step;
  metrics.step_num_tokens = 4000;
  metrics.step_num_target_tokens = 1000;
  metrics.step_time_s = 0.5;
  metrics.peak_memory.min_bytes = 1;
  metrics.peak_memory.mean_bytes = 2;
  metrics.peak_memory.max_bytes = 3;
  return metrics;
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// A path in the build folder that is gone at the start and at the end of a test.
struct ScratchFile {
  explicit ScratchFile(std::string name) : path(std::move(name)) { std::filesystem::remove(path); }
  ~ScratchFile() { std::filesystem::remove(path); }
  std::string path;
};

}  // namespace

BOOST_AUTO_TEST_CASE(line_has_the_documented_keys_in_order) {
  const auto json = nlohmann::ordered_json::parse(train::to_json(example(3)));
  std::string keys;
  for (const auto& item : json.items()) keys += item.key() + " ";
  BOOST_TEST(keys ==
             "step epoch loss grad_norm learning_rate num_tokens num_target_tokens mean_token_accuracy entropy "
             "step_loss step_num_tokens step_num_target_tokens tokens_per_second target_tokens_per_second step_time_s "
             "peak_memory_bytes_min peak_memory_bytes_mean "
             "peak_memory_bytes_max peak_memory_rank ");
}

BOOST_AUTO_TEST_CASE(a_line_says_which_rank_is_slowest_and_which_is_fullest) {
  train::StepMetrics metrics = example(3);
  metrics.slowest = {.rank = 2, .ratio = 1.5, .excess_s = 0.1, .exposed_share = 0.125};
  metrics.peak_memory.max_rank = 1;
  metrics.peak_memory.fullest = {.rank = 4, .peak_bytes = 2, .used_bytes = 6, .limit_bytes = 8};
  const auto json = nlohmann::json::parse(train::to_json(metrics));
  BOOST_TEST(json["slowest_rank"] == 2);
  BOOST_TEST(json["slowest_ratio"] == 1.5);
  BOOST_TEST(json["exposed_communication"] == 0.125);
  BOOST_TEST(json["peak_memory_rank"] == 1);
  BOOST_TEST(json["fullest_rank"] == 4);
  BOOST_TEST(json["fullest_memory_bytes"] == 6);
  BOOST_TEST(json["fullest_memory_limit_bytes"] == 8);
}

BOOST_AUTO_TEST_CASE(a_line_says_where_the_time_of_the_run_went) {
  train::StepMetrics metrics = example(3);
  metrics.num_skipped_steps = 2;
  metrics.time = {1e9, 3, {.total_s = 8, .useful_s = 6, .save_s = 1, .evaluation_s = 0.5, .restart_s = 0.25}};
  const auto json = nlohmann::ordered_json::parse(train::to_json(metrics));
  std::string keys;
  for (const auto& item : json.items()) keys += item.key() + " ";
  BOOST_TEST(
      keys.ends_with("peak_memory_rank skipped_steps time goodput run_time_s useful_time_s save_time_s "
                     "eval_time_s restart_time_s repeated_time_s repeated_steps restarts "));
  BOOST_TEST(json["goodput"].get<double>() == 0.75);
  BOOST_TEST((train::parse_time_note(train::to_json(metrics))->use == metrics.time->use));
}

BOOST_AUTO_TEST_CASE(numbers_of_a_step_that_was_left_out_are_null) {
  train::StepMetrics metrics = example(3);
  metrics.loss = metrics.step_loss = metrics.grad_norm = std::nan("");
  const auto json = nlohmann::json::parse(train::to_json(metrics));
  for (const char* name : {"loss", "step_loss", "grad_norm"}) BOOST_TEST(json[name].is_null(), name);
}

BOOST_AUTO_TEST_CASE(numbers_read_back_to_the_same_bits) {
  const auto json = nlohmann::json::parse(train::to_json(example(3)));
  BOOST_TEST(json["loss"].get<double>() == 0.1 + 0.2);
  BOOST_TEST(json["epoch"].get<double>() == 1.0 / 3.0);
  BOOST_TEST(json["grad_norm"].get<double>() == 1e-300);
  BOOST_TEST(json["tokens_per_second"].get<double>() == 8000.0);
  BOOST_TEST(json["target_tokens_per_second"].get<double>() == 2000.0);
}

BOOST_AUTO_TEST_CASE(mfu_only_when_the_peak_is_known) {
  train::StepMetrics metrics = example(1);
  BOOST_TEST(!nlohmann::json::parse(train::to_json(metrics)).contains("mfu"));
  metrics.mfu = 0.25;
  BOOST_TEST(nlohmann::json::parse(train::to_json(metrics))["mfu"].get<double>() == 0.25);
}

BOOST_AUTO_TEST_CASE(only_the_first_line_after_a_restart_names_its_step) {
  train::StepMetrics metrics = example(1);
  BOOST_TEST(!nlohmann::json::parse(train::to_json(metrics)).contains("resumed_step"));
  metrics.resumed_step = 7;
  BOOST_TEST(nlohmann::json::parse(train::to_json(metrics))["resumed_step"].get<std::int64_t>() == 7);
}

BOOST_AUTO_TEST_CASE(an_evaluation_has_a_line_of_its_own) {
  const train::EvalMetrics metrics{.step = 3,
                                   .epoch = 1.0 / 3.0,
                                   .loss = 0.1 + 0.2,
                                   .mean_token_accuracy = 0.5,
                                   .entropy = 1.5,
                                   .num_target_tokens = 709,
                                   .time_s = 0.25};
  BOOST_TEST(train::to_json(metrics) ==
             R"({"step":3,"epoch":0.3333333333333333,"eval_loss":0.30000000000000004,"eval_mean_token_accuracy":0.5,)"
             R"("eval_entropy":1.5,"eval_num_target_tokens":709,"eval_runtime":0.25})");
}

BOOST_AUTO_TEST_CASE(an_evaluation_that_comes_again_is_dropped) {
  const std::string text = "{\"step\":0,\"eval_loss\":4}\n{\"step\":2}\n{\"step\":2,\"eval_loss\":3}\n{\"step\":3}\n";
  BOOST_TEST(train::keep_steps(text, 3, 2) == text);
  BOOST_TEST(train::keep_steps(text, 2, 2) == text.substr(0, text.find("{\"step\":3}")));
  BOOST_TEST(train::keep_steps(text, 2, 0) == "{\"step\":0,\"eval_loss\":4}\n{\"step\":2}\n");
  BOOST_TEST(train::keep_steps(text, 2, -1) == "{\"step\":2}\n");
}

BOOST_AUTO_TEST_CASE(later_steps_and_cut_lines_are_dropped) {
  const std::string text = "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": ";
  BOOST_TEST(train::keep_steps(text, 2, -1) == "{\"step\": 1}\n{\"step\": 2}\n");
  BOOST_TEST(train::keep_steps(text, 9, -1) == "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n");
  BOOST_TEST(train::keep_steps("", 9, -1).empty());
}

using train::EarlierLines;

std::string line_of(std::int64_t step) { return train::to_json(example(step)); }

BOOST_AUTO_TEST_CASE(a_resumed_file_equals_an_uninterrupted_one) {
  const ScratchFile whole("unit_train_whole.jsonl");
  const ScratchFile resumed("unit_train_resumed.jsonl");
  {
    train::MetricsFile file(whole.path, 0, -1, EarlierLines::set_aside);
    for (int step = 1; step <= 5; ++step) file.append(line_of(step));
  }
  {
    train::MetricsFile file(resumed.path, 0, -1,
                            EarlierLines::set_aside);  // went to step 4, its last checkpoint was of 3
    for (int step = 1; step <= 4; ++step) file.append(line_of(step));
  }
  {
    train::MetricsFile file(resumed.path, 3, -1, EarlierLines::keep);
    for (int step = 4; step <= 5; ++step) file.append(line_of(step));
  }
  BOOST_TEST(read(resumed.path) == read(whole.path));
  BOOST_TEST(!std::filesystem::exists(resumed.path + ".old"));
}

BOOST_AUTO_TEST_CASE(lines_of_other_runs_are_set_aside_and_never_overwritten) {
  const ScratchFile scratch("unit_train_anew.jsonl"), first(scratch.path + ".old"), second(scratch.path + ".old.1");
  { train::MetricsFile(scratch.path, 0, -1, EarlierLines::set_aside).append(line_of(1)); }
  { train::MetricsFile(scratch.path, 0, -1, EarlierLines::set_aside).append(line_of(2)); }
  {
    train::MetricsFile(scratch.path, 7, -1, EarlierLines::set_aside).append(line_of(8));
  }  // from another folder's step 7
  BOOST_TEST(read(scratch.path) == line_of(8) + "\n");
  BOOST_TEST(read(first.path) == line_of(1) + "\n");
  BOOST_TEST(read(second.path) == line_of(2) + "\n");
}

BOOST_AUTO_TEST_CASE(a_branch_keeps_a_copy_of_what_it_leaves) {
  const ScratchFile scratch("unit_train_branch.jsonl"), copy(scratch.path + ".old");
  {
    train::MetricsFile file(scratch.path, 0, -1, EarlierLines::set_aside);
    for (int step = 1; step <= 3; ++step) file.append(line_of(step));
  }
  const std::string before = read(scratch.path);
  { train::MetricsFile(scratch.path, 2, -1, EarlierLines::keep_and_copy).append(line_of(3)); }
  BOOST_TEST(read(scratch.path) == before);
  BOOST_TEST(read(copy.path) == before);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_gone_begins_anew) {
  const ScratchFile scratch("unit_train_gone.jsonl");
  train::MetricsFile file(scratch.path, 0, -1, EarlierLines::set_aside);
  file.append(line_of(1));
  std::filesystem::remove(scratch.path);
  file.append(line_of(2));
  file.append(line_of(3));
  BOOST_TEST(read(scratch.path) == line_of(2) + "\n" + train::to_json(example(3)) + "\n");
}
