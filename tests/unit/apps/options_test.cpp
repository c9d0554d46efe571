// SPDX-License-Identifier: Apache-2.0
// Command lines of the programs beside sft, as users write them.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "apps/common/prepare_options.hpp"
#include "apps/convert/options.hpp"
#include "apps/generate/options.hpp"
#include "apps/inspect/options.hpp"
#include "apps/plan/options.hpp"
#include "support/config_error.hpp"

using namespace sft;
using test::check_says;
using test::refusal;

namespace {

apps::PrepareCommand command_with(std::vector<std::string> words) {
  words.insert(words.begin(), {"--input", "a.jsonl", "--output", "o"});
  return apps::read_prepare_options(words).value();
}

prepare::PrepareOptions prepare_with(const std::vector<std::string>& words) { return command_with(words).options; }

std::string prepare_refusal(const std::vector<std::string>& words) {
  return refusal([&] { (void)prepare_with(words); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_are_those_of_sft) {
  BOOST_TEST(prepare_with({"--max_length", "1e3"}).max_length == 1000);
  BOOST_TEST(prepare_with({"--max_length=none", "--packing=false"}).max_length ==
             prepare::PrepareOptions::no_max_length);
  BOOST_TEST(prepare_with({"--seed", "2e1"}).seed == 20u);
  BOOST_TEST(prepare_with({"--eval_split", "'5e-2'"}).eval_split == 0.05);
  BOOST_TEST(prepare_with({"--input_weight", "1e0", "--input_weight", "3"}).input_weights == (std::vector{1.0, 3.0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_are_padded_to_no_multiple_where_trl_says_auto) {
  for (const char* word : {"auto", "none", "1", "1.0"}) {
    BOOST_TEST(prepare_with({"--pad_to_multiple_of", word}).pad_to_multiple_of == 1, word);
  }
  BOOST_TEST(prepare_with({"--pad_to_multiple_of", "6_4"}).pad_to_multiple_of == 64);
  check_says(prepare_refusal({"--pad_to_multiple_of", "many"}), "it is a whole number from 1, auto or none");
}

BOOST_AUTO_TEST_CASE(the_model_may_be_given_by_its_name) {
  using Words = std::vector<std::string>;
  const Words named{"--model_name_or_path", "org/name"};
  BOOST_TEST(apps::read_generate_options({"--prompt", "x", named[0], named[1]})->model == "org/name");
  BOOST_TEST(apps::read_inspect_options(named)->checkpoint == "org/name");
  for (const Words& words : {Words{"out", named[0], named[1]}, Words{named[0], named[1], "out"}}) {
    const auto options = apps::read_convert_options(words);
    BOOST_TEST(options->from == "org/name");
    BOOST_TEST(options->to == "out");
  }
  const auto plan = apps::read_plan_options({named[0], named[1], "--machine", "h200x8", "--max_length", "4k"});
  BOOST_TEST(plan->model == "org/name");
  BOOST_TEST(plan->is_model_name);
  BOOST_TEST(plan->overrides.empty());
  const auto with_file = apps::read_plan_options({"run.ini", named[0], named[1], "--machine", "h200x8"});
  BOOST_TEST(with_file->model == "run.ini");
  BOOST_TEST(with_file->overrides.size() == 1U);
  check_says(refusal([&] { (void)apps::read_inspect_options({named[0], "a", named[0], "b"}); }), "is given twice");
}

BOOST_AUTO_TEST_CASE(truths_are_those_of_sft) {
  for (const char* word : {"true", "True", "yes", "1", "on"}) {
    BOOST_TEST(prepare_with({"--shuffle_dataset", word}).shuffle_dataset, word);
  }
  for (const char* word : {"false", "False", "no", "0", "off"}) {
    BOOST_TEST(!prepare_with({std::string("--shuffle_dataset=") + word}).shuffle_dataset, word);
  }
  BOOST_TEST(prepare_with({"--shuffle-dataset"}).shuffle_dataset);
  BOOST_TEST((prepare_with({"--no_packing"}).packing_strategy == prepare::PackingStrategy::none));
  BOOST_TEST(prepare_with({"--no_completion_only_loss"}).example.completion_only_loss.value() == false);
}

BOOST_AUTO_TEST_CASE(paths_have_variables_and_texts_have_none) {
  ::setenv("SFT_TEST_FOLDER", "/data", 1);
  ::setenv("HOME", "/home/me", 1);
  const apps::PrepareCommand command =
      command_with({"--input", "$SFT_TEST_FOLDER/b c.jsonl", "--model_name_or_path", "~/model", "--eos_token", "$x"});
  BOOST_TEST(command.records.inputs == (std::vector<std::string>{"a.jsonl", "/data/b c.jsonl"}),
             boost::test_tools::per_element());
  BOOST_TEST(command.model == "/home/me/model");
  BOOST_TEST(command.options.text.eos_token == "$x");
  check_says(prepare_refusal({"--chat_template_path", "$SFT_TEST_NOWHERE/x"}),
             "the value of --chat_template_path is not valid (expected the variable SFT_TEST_NOWHERE to be set");
}

BOOST_AUTO_TEST_CASE(a_flag_leaves_the_next_word_alone) {
  const auto read = [](const std::vector<std::string>& words) { return apps::read_inspect_options(words).value(); };
  BOOST_TEST(read({"--verify", "folder"}).checkpoint == "folder");
  const apps::InspectOptions options = read({"--json", "true", "--no_verify", "folder"});
  BOOST_TEST(options.checkpoint == "folder");
  BOOST_TEST(options.json);
  BOOST_TEST(!options.verify);
  BOOST_TEST(read({"--", "--folder"}).checkpoint == "--folder");
}

BOOST_AUTO_TEST_CASE(help_comes_before_all_else) {
  BOOST_TEST(!apps::read_inspect_options({"--verify", "a", "b", "-h", "--no_such_thing"}).has_value());
  BOOST_TEST(!apps::read_prepare_options({"--seed", "x", "--help"}).has_value());
}

BOOST_AUTO_TEST_CASE(names_of_training_mean_nothing_to_other_tools) {
  check_says(refusal([] { (void)apps::read_inspect_options({"--bf16", "x"}); }), "see sft-inspect --help");
}

BOOST_AUTO_TEST_CASE(names_of_trl_mean_options) {
  BOOST_TEST(prepare_with({"--max_seq_length", "512"}).max_length == 512);
  BOOST_TEST(prepare_with({"--test_split_size", "0.1"}).eval_split == 0.1);
  BOOST_TEST((prepare_with({"--strategy", "wrapped"}).packing_strategy == prepare::PackingStrategy::wrapped));
  BOOST_TEST(prepare_with({"--padding_free", "--dataset_batch_size", "1000", "--seed", "7"}).seed == 7u);
}

struct Refused {
  std::vector<std::string> words;
  const char* says;
};

std::ostream& operator<<(std::ostream& out, const Refused& refused) {
  for (const std::string& word : refused.words) out << word << ' ';
  return out;
}

const Refused refused_words[] = {
    {{"--seed", "x"}, "the value of --seed is not valid (expected a whole number): see sft-prepare --help"},
    {{"--seed", "1.5"}, "expected a whole number"},
    {{"--num_threads", "1e10"}, "expected a whole number"},
    {{"--eval_split", "nan"}, "expected a finite number"},
    {{"--packing", "maybe"}, "`maybe` is one word too many (it belongs to no option): --packing takes true or false;"},
    {{"-output", "x"},
     "`-output` is one word too many (it belongs to no option): options begin with two dashes: --output;"},
    {{"--packing=maybe"}, "the value of --packing is not valid (expected true or false)"},
    {{"--seed"}, "`--seed` has no value"},
    {{"--seed", "1", "--seed", "2"}, "option '--seed' cannot be specified more than once"},
    {{"--max_lenght", "8"}, "did you mean --max_length?"},
    {{"--velocity", "8"}, "sft-prepare has no option --velocity (there is nothing like it)"},
    {{"more.jsonl"}, "`more.jsonl` is one word too many"},
    {{"--learning_rate", "1"}, "it belongs to training"},
    {{"--bf16"}, "it belongs to training"},
    {{"--use_fsdp"}, "it belongs to training"},
    {{"--no_such_thing"}, "sft-prepare has no option --no_such_thing"},
    {{"--dataset_name", "org/set"}, "`postprocess/fetch.py dataset NAME --output FILE.jsonl`"},
    {{"--eval_packing", "true"}, "sft-prepare does not take `eval_packing = true` on the command line"},
    {{"--dataset_batch_size", "10"}, "--packing_scope all"},
    {{"--streaming=maybe"}, "write true or false"},
};

BOOST_DATA_TEST_CASE(other_words_are_refused_with_what_to_write, boost::unit_test::data::make(refused_words), refused) {
  check_says(prepare_refusal(refused.words), refused.says);
}
