// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/request.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "launch_fixture.hpp"
#include "support/config_error.hpp"

using namespace sft;

namespace {

config::PlacedOption option(const std::string& name, const std::string& value) {
  return {{name, value}, "on the command line"};
}

launch::Request taken(const std::vector<std::vector<config::PlacedOption>>& sources) {
  launch::Request request;
  for (const auto& source : sources) launch::take(request, source, test::options_of_prepare());
  return request;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(request)

BOOST_AUTO_TEST_CASE(data_files_are_a_text_a_list_or_a_map_of_splits) {
  const auto files = [](const std::string& value) {
    std::string text;
    const launch::Request request = taken({{option("data_files", value)}});
    for (const launch::FilesOfSplit& split : request.train.front().data_files) {
      text += split.split + ":";
      for (const std::string& file : split.files) text += file + ";";
    }
    return text;
  };
  BOOST_TEST(files("a.jsonl") == "train:a.jsonl;");
  BOOST_TEST(files(R"(["a b.jsonl", "c.jsonl"])") == "train:a b.jsonl;c.jsonl;");
  BOOST_TEST(files(R"({"train": "a.jsonl", "test": ["b.jsonl", "c.jsonl"]})") == "train:a.jsonl;test:b.jsonl;c.jsonl;");
  BOOST_TEST(files(R"([{"split": "train", "path": "a.jsonl"}, {"split": "x", "path": "b.jsonl"}])") ==
             "train:a.jsonl;x:b.jsonl;");
  for (const char* value : {R"({"train": {"a": 1}})", R"([["a.jsonl"]])", R"([{"split": "train"}])"}) {
    const launch::Request request = taken({{option("data_files", value)}});
    BOOST_REQUIRE(request.refused.size() == 1U);
    test::check_says(request.refused.front(), "`data_files` on the command line cannot be read (files are a text");
  }
  for (const char* value : {R"(["a", "b"])", R"({"path": "a"})", "a"}) {
    test::check_says(taken({{option("datasets", value)}}).refused.front(), "it is a list of data sets");
  }
  const std::string mixture =
      R"([{"path": "json", "data_files": {"train": ["a.jsonl"]}, "data_dir": "d"}, {"path": "x", "data_files": [1, [2]]}])";
  const launch::Request request = taken({{option("datasets", mixture)}});
  BOOST_TEST(request.train[0].data_files.front().files.front() == "a.jsonl");
  BOOST_TEST(request.train[0].data_dir == "d");
  BOOST_TEST(request.refused.size() == 1U);
}

BOOST_AUTO_TEST_CASE(later_sources_win) {
  const launch::Request request = taken({{option("num_processes", "8"), option("max_length", "100"),
                                          option("learning_rate", "1e-3"), option("dataset_name", "one")},
                                         {option("num_processes", "4"), option("max_length", "200"),
                                          option("learning_rate", "1e-4"), option("dataset_name", "two")}});
  BOOST_TEST(request.num_processes.value_or(0) == 4);
  BOOST_TEST(request.preparation.at("max_length") == "200");
  BOOST_TEST(request.train.front().name == "two");
  BOOST_TEST(config::parse_sources(request.training, {}).optimizer.learning_rate == 1e-4);
}

BOOST_AUTO_TEST_CASE(a_number_of_ranks_on_the_command_line_beats_single_gpu) {
  const auto single = option("single_process", "true"), processes = option("num_processes", "8");
  BOOST_TEST(taken({{processes, single}}).is_single_process);
  BOOST_TEST(!taken({{processes, single}, {processes}}).is_single_process);
}

BOOST_AUTO_TEST_CASE(names_of_prepare_that_are_others) {
  const launch::Request request = taken({{option("max_seq_length", "512"), option("test_split_size", "0.1")}});
  BOOST_TEST(request.preparation.at("max_length") == "512");
  BOOST_TEST(request.preparation.at("eval_split") == "0.1");
}

BOOST_AUTO_TEST_CASE(lists_of_prepare_go_on_within_a_source) {
  const auto first = option("rename", "question=prompt"), second = option("rename", "answer=completion");
  BOOST_TEST(taken({{first, second}}).preparation.at("rename") == "question=prompt,answer=completion");
  BOOST_TEST(taken({{first}, {second}}).preparation.at("rename") == "answer=completion");
  BOOST_TEST(taken({{option("max_length", "1"), option("max_length", "2")}}).preparation.at("max_length") == "2");
}

BOOST_AUTO_TEST_CASE(twice_in_one_source) {
  const launch::Request request = taken({{option("learning_rate", "1"), option("optimizer.learning_rate", "2")}});
  test::check_says(test::refusal([&] { static_cast<void>(config::parse_sources(request.training, {})); }),
                   "set the same key");
}

BOOST_AUTO_TEST_CASE(packed_files_are_the_trainers) {
  const launch::Request packed = taken({{option("train_files", "data/train-*.h5")}});
  BOOST_TEST(packed.train.empty());
  BOOST_TEST(config::parse_sources(packed.training, {}).data.train_files.front() == "data/train-*.h5");
  BOOST_TEST(taken({{option("data_files", "a.jsonl b.jsonl")}}).train.front().data_files.front().files.size() == 2U);
  BOOST_TEST(taken({{option("eval_files", "e.jsonl")}}).eval.front().data_files.front().files.front() == "e.jsonl");
}

BOOST_AUTO_TEST_CASE(settings_of_a_run_that_is_started) {
  const std::vector<config::PlacedOption> settings{option("num_processes", "8"), option("num_machines", "1"),
                                                   option("rdzv_backend", "static"), option("zero_stage", "2")};
  std::vector<std::string> notes;
  BOOST_TEST(launch::settings_of_run(settings, 8, notes).size() == 1U);
  BOOST_TEST(launch::settings_of_run(settings, 0, notes).size() == 1U);
  test::check_says(test::refusal([&] { static_cast<void>(launch::settings_of_run(settings, 2, notes)); }),
                   "2 ranks were started, and 8 are asked for");
  std::vector<config::PlacedOption> single = settings;
  single.push_back(option("single_process", "true"));
  BOOST_TEST(launch::settings_of_run(single, 1, notes).size() == 1U);
  test::check_says(test::refusal([&] { static_cast<void>(launch::settings_of_run(single, 8, notes)); }),
                   "8 ranks were started, and 1 is asked for");
  BOOST_TEST(notes.empty());
}

BOOST_AUTO_TEST_CASE(what_ranks_that_are_started_cannot_do) {
  std::vector<std::string> notes;
  const std::vector<config::PlacedOption> settings{option("num_machines", "2"),      option("max_restarts", "3"),
                                                   option("rdzv_backend", "c10d"),   option("monitor_interval", "5"),
                                                   option("main_process_port", "1"), option("zero_stage", "2")};
  BOOST_TEST(launch::settings_of_run(settings, 8, notes).size() == 1U);
  BOOST_REQUIRE(notes.size() == 4U);
  test::check_says(notes[0], "mpirun or srun has chosen where ranks start");
  test::check_says(notes[1], "sft-run --restarts 3");
  test::check_says(notes[2], "`rdzv_backend` without effect");
  test::check_says(notes[3], "`monitor_interval` without effect");
}

BOOST_AUTO_TEST_CASE(sizes_that_are_auto) {
  using Names = std::set<std::string>;
  struct Case {
    std::vector<config::PlacedOption> given;
    Names free;
  };
  const std::vector<Case> cases{
      {{}, {}},
      {{option("dp_shard_size", "auto"), option("sp_method", "auto")}, {}},  // sft's own
      {{option("zero_stage", "auto")}, {"zero_stage", "dp_shard_size"}},
      {{option("parallel.tp_size", "auto")}, {"tp_size", "dp_shard_size", "gradient_accumulation_steps"}},
      {{option("cp_size", "auto")}, {"sp_size", "sp_method", "dp_shard_size", "gradient_accumulation_steps"}},
      {{option("sp_size", "auto"), option("sp_method", "ring")},
       {"sp_size", "dp_shard_size", "gradient_accumulation_steps"}},
      {{option("tp_size", "auto"), option("dp_shard_size", "2"), option("gradient_accumulation_steps", "3")},
       {"tp_size", "per_device_train_batch_size"}},
      {{option("tp_size", "auto"), option("gradient_accumulation_steps", "3"),
        option("per_device_train_batch_size", "2")},
       {"tp_size", "dp_shard_size"}},
      {{option("per_device_train_batch_size", "auto")},
       {"per_device_train_batch_size", "dp_shard_size", "gradient_accumulation_steps"}},
      {{option("gradient_checkpointing", "auto")}, {"activation_checkpointing", "dp_shard_size"}},
  };
  for (const Case& each : cases) {
    const launch::Request request = taken({each.given});
    BOOST_TEST(launch::free_sizes(request) == each.free, boost::test_tools::per_element());
    static_cast<void>(config::parse_sources(request.training, request.refused));  // auto is no value of sft's keys
  }
}

BOOST_AUTO_TEST_CASE(auto_and_numbers_replace_each_other) {
  const auto automatic = option("tp_size", "auto"), number = option("tp_size", "2");
  BOOST_TEST(taken({{automatic}, {number}}).automatic.empty());
  BOOST_TEST(config::parse_sources(taken({{automatic}, {number}}).training, {}).parallel.tp_size == 2);
  BOOST_TEST(taken({{number}, {automatic}}).automatic.contains("tp_size"));
  BOOST_TEST(config::parse_sources(taken({{number}, {automatic}}).training, {}).parallel.tp_size == 1);
}

BOOST_AUTO_TEST_CASE(rows_of_a_step_are_those_of_trl) {
  const auto rows = [](const std::vector<config::PlacedOption>& given) {
    const launch::Request request = taken({given});
    return launch::rows_of_step(request, config::parse_sources(request.training, {}), 16);
  };
  BOOST_TEST(rows({option("tp_size", "auto")}) == 8 * 16);
  BOOST_TEST(rows({option("tp_size", "auto"), option("sp_size", "4")}) == 8 * 4);
  BOOST_TEST(rows({option("per_device_train_batch_size", "2"), option("gradient_accumulation_steps", "3")}) == 96);
  BOOST_TEST(rows({option("train_batch_size", "64"), option("tp_size", "auto")}) == 64);
}

BOOST_AUTO_TEST_CASE(variables_and_notes) {
  const launch::Request request = test::request_of(test::read_text(
      "env:\n  CUDA_VISIBLE_DEVICES: 0\n  NAME: text\nzero3_save_16bit_model: true\nlearning_rate: 1e-3\n"));
  const std::vector<std::pair<std::string, std::string>> variables{{"CUDA_VISIBLE_DEVICES", "0"}, {"NAME", "text"}};
  BOOST_TEST((request.environment == variables));
  BOOST_TEST_REQUIRE(request.notes.size() == 1U);
  test::check_says(request.notes.front(), "16 bits");
  BOOST_TEST(config::parse_sources(request.training, request.refused).optimizer.learning_rate == 1e-3);
  BOOST_TEST(test::request_of(test::read_text("zero3_save_16bit_model: false\n")).notes.empty());
  BOOST_TEST(test::request_of(test::read_text("env: 3\n")).refused.size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_is_sent_to_the_hub) {
  const launch::HubUpload hub =
      taken({{option("push_to_hub", "true"), option("hub_model_id", "org/name"), option("hub_strategy", "checkpoint"),
              option("hub_private_repo", "none"), option("hub_always_push", "true")}})
          .hub;
  BOOST_TEST(hub.is_wanted);
  BOOST_TEST(hub.model_id == "org/name");
  BOOST_TEST(hub.strategy == "checkpoint");
  BOOST_TEST(!hub.has_private_repo.has_value());
  BOOST_TEST(!taken({{option("hub_model_id", "org/name")}}).hub.is_wanted);
  BOOST_TEST(!taken({{option("push_to_hub", "true")}, {option("push_to_hub", "false")}}).hub.is_wanted);
  for (const char* name : {"a/b/c", "/a", "a/", "a b", "org/na?me"}) {
    BOOST_TEST(taken({{option("hub_model_id", name)}}).refused.size() == 1U, name);
  }
  BOOST_TEST(taken({{option("hub_private_repo", "maybe"), option("push_to_hub", "2")}}).refused.size() == 2U);
  const launch::Request axolotl =
      test::request_of(test::read_text("base_model: m\nhub_model_id: org/name\nuse_dft: true\n"));
  BOOST_TEST((config::parse_sources(axolotl.training, axolotl.refused).train.loss_type == config::LossType::dft));
  BOOST_TEST(axolotl.hub.is_wanted);
  BOOST_TEST(axolotl.hub.model_id == "org/name");
}

BOOST_AUTO_TEST_SUITE_END()
