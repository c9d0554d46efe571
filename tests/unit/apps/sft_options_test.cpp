// SPDX-License-Identifier: Apache-2.0
// The command line of sft, and what it says of itself.
#include "apps/sft/options.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "sft/config/parse.hpp"
#include "support/config_error.hpp"

using namespace sft;
using apps::SftOptions;
using test::check_says;
using test::refusal;

namespace {

using Action = SftOptions::Action;

SftOptions read(const std::vector<std::string>& words) { return apps::read_sft_options(words).value(); }

void says(const std::vector<std::string>& words, const std::string& part) {
  check_says(refusal([&] { (void)read(words); }), part);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sft_options)

BOOST_AUTO_TEST_CASE(the_command_line_is_split) {
  const SftOptions run = read({"inputs/demo.ini", "--train.max_steps=-1", "--parallel.tp_size", "2"});
  BOOST_TEST((run.action == Action::run));
  BOOST_TEST(run.input_file == "inputs/demo.ini");
  const config::Config config = config::parse("", run.overrides, "run.ini");
  BOOST_TEST(config.train.max_steps == -1);
  BOOST_TEST(config.parallel.tp_size == 2);
  BOOST_TEST(read({"--parallel.tp_size", "2", "late.ini"}).input_file == "late.ini");
  BOOST_TEST(read({"--bf16", "run.ini"}).input_file == "run.ini");
  BOOST_TEST(read({"--no_shuffle", "run.ini"}).input_file == "run.ini");
  BOOST_TEST(read({"--fsdp", "full_shard auto_wrap", "--offload_param_device", "none", "run.ini"}).input_file ==
             "run.ini");
  BOOST_TEST(read({}).input_file == "");
  BOOST_TEST((read({"a.ini", "--print-config"}).action == Action::print_config));
  BOOST_TEST((read({"a.ini", "--print_config"}).action == Action::print_config));
  BOOST_TEST((read({"--check", "a.ini"}).action == Action::check));
}

BOOST_AUTO_TEST_CASE(help_and_version_come_before_all_else) {
  for (const char* word : {"--help", "-h", "--version"}) {
    BOOST_TEST(!apps::read_sft_options({word}).has_value());
    BOOST_TEST(!apps::read_sft_options({word, "model"}).has_value());
    BOOST_TEST(!apps::read_sft_options({"--dry-run", "a.ini", "b.ini", "--json", word, "--halp"}).has_value());
  }
}

BOOST_AUTO_TEST_CASE(words_that_are_no_options_are_refused) {
  says({"a.ini", "b.ini"}, "`b.ini` is one word too many");
  says({"--halp"}, "did you mean `help`?");
  says({"--dry_rum"}, "did you mean `dry-run`?");
  says({"--tp_sise", "2"}, "did you mean `tp_size`?");
  says({"-x"}, "unknown key `x`");
  says({"--foo", "1", "--tp_size", "2", "--bar", "3"}, "2 options are not known");
  says({"--json=maybe"}, "the value of --json is not valid (expected true or false)");
  says({"a.ini", "--dry-run", "--num_ranks"}, "`--num_ranks` has no value");
}

BOOST_AUTO_TEST_CASE(a_dry_run_is_asked_for) {
  const SftOptions plain = read({"a.ini", "--dry-run"});
  BOOST_TEST((plain.action == Action::dry_run));
  BOOST_TEST(!plain.json);
  BOOST_TEST(plain.num_ranks == 0);
  const SftOptions full = read({"--num_ranks", "1024", "--json", "a.ini", "--dry-run"});
  BOOST_TEST((full.action == Action::dry_run));
  BOOST_TEST(full.json);
  BOOST_TEST(full.num_ranks == 1024);
  BOOST_TEST(read({"a.ini", "--dry-run", "--ranks_per_node", "8"}).ranks_per_node == 8);
  BOOST_TEST(read({"a.ini", "--machine", "m.ini"}).machine == "m.ini");
  BOOST_TEST(read({"a.ini", "--check", "--write_machine", "m.ini"}).machine_file == "m.ini");
  BOOST_TEST(full.input_file == "a.ini");
  BOOST_TEST(read({"a.ini", "--dry-run", "--num_ranks=4"}).num_ranks == 4);

  const SftOptions ahead = read({"a.ini", "--compile-attention", "--machine", "h200x8", "--num_ranks", "16"});
  BOOST_TEST((ahead.action == SftOptions::Action::compile_attention));
  BOOST_TEST(ahead.machine == "h200x8");
  BOOST_TEST(ahead.num_ranks == 16);
  says({"a.ini", "--compile-attention", "--json"}, "--json without --dry-run");
  says({"a.ini", "--compile-attention", "--memory", "80GB"}, "--memory without --dry-run");
  says({"a.ini", "--compile-attention", "--dry-run"}, "several of");
  says({"a.ini", "--json"}, "--json without --dry-run");
  says({"a.ini", "--num_ranks", "4"}, "--num_ranks without --dry-run");
  says({"a.ini", "--ranks_per_node", "4"}, "--ranks_per_node without --dry-run");
  says({"a.ini", "--dry-run", "--ranks_per_node", "0"}, "`--ranks_per_node 0` is no number of ranks");
  says({"a.ini", "--write_machine", "m.ini"}, "--write_machine without --check");
  says({"a.ini", "--check", "--machine", "m.ini"}, "--machine with --check or --print-config");
  says({"a.ini", "--check", "--json"}, "--json without --dry-run");
  says({"a.ini", "--check", "--dry-run"},
       "several of --print-config, --dry-run, --compile-attention and --check are given");
  says({"a.ini", "--print-config", "--num_ranks", "4"}, "--num_ranks without --dry-run");
  says({"a.ini", "--print-config", "--dry-run"},
       "several of --print-config, --dry-run, --compile-attention and --check are given");
  for (const char* wrong : {"0", "-4", "many", "4x", "99999999999"}) {
    says({"a.ini", "--dry-run", "--num_ranks", wrong}, "is no number of ranks");
  }
}

BOOST_AUTO_TEST_CASE(a_dry_run_without_data) {
  const SftOptions full = read({"--dry-run", "--max_length", "32k", "--num_rows", "1e4", "--memory", "80GB"});
  BOOST_TEST(full.max_length == 32768);
  BOOST_TEST(full.num_rows == 10000);
  BOOST_TEST(full.memory_bytes == 80000000000u);
  BOOST_TEST(read({"--dry-run", "--max_length", "100"}).num_rows == 0);
  says({"--dry-run", "--num_rows", "5"}, "--num_rows without --max_length");
  says({"--dry-run", "--max_length", "0"}, "is no length of a row");
  says({"--dry-run", "--max_length", "8", "--num_rows", "none"}, "is no number of rows");
  says({"--dry-run", "--memory", "much"}, "is no size");
  says({"--memory", "80GB"}, "--memory without --dry-run");
  says({"--num_rows", "80"}, "--num_rows without --dry-run");
  BOOST_TEST(read({"--max_length", "80"}).overrides.at(0).name == "max_length");  // which sft refuses as a key
}

BOOST_AUTO_TEST_CASE(help_fits_the_terminal) {
  const cli::Manual manual = apps::sft_manual();
  std::istringstream lines(cli::help_of(manual) + cli::help_of_topic(manual, "model"));
  for (std::string line; std::getline(lines, line);) BOOST_TEST(line.size() <= 100u, line);
}

BOOST_AUTO_TEST_CASE(help_lists_every_key_of_the_ini_text) {
  const cli::Manual manual = apps::sft_manual();
  const std::string help = cli::help_of(manual) + cli::help_of_topic(manual, "model");
  std::istringstream lines(config::to_ini(config::Config{}));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) check_says(help, line.substr(0, line.find(" =")));
  }
}

BOOST_AUTO_TEST_CASE(keys_of_an_architecture_have_a_help_of_their_own) {
  const cli::Manual manual = apps::sft_manual();
  const std::string help = cli::help_of(manual), of_model = cli::help_of_topic(manual, "model");
  for (const char* key : {"\n  model_name_or_path ", "\n  init_seed ", "\n  tp_size "}) {
    check_says(help, key);
    BOOST_TEST(of_model.find(key) == std::string::npos, key);
  }
  for (const char* key : {"\n  hidden_size ", "\n  n_shared_experts "}) {
    check_says(of_model, key);
    BOOST_TEST(help.find(key) == std::string::npos, key);
  }
  check_says(help, "sft --help model");
  check_says(cli::man_page_of(manual, {}), "rounds_embedding_multiplier");
  check_says(cli::bash_completion_of(manual), "--model.hidden_size --hidden_size");
  says({"--hidden_sise", "8"}, "hidden_size");
}

BOOST_AUTO_TEST_CASE(the_documentation_holds_the_text_of_help) {
  std::ifstream stream(std::filesystem::path(SFT_SOURCE_DIR) / "docs" / "configuration.md");
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  const cli::Manual manual = apps::sft_manual();
  for (const std::string& text : {cli::help_of(manual), cli::help_of_topic(manual, "model")}) {
    BOOST_CHECK_MESSAGE(page.find("```text\n" + text + "```\n") != std::string::npos,
                        "docs/configuration.md is out of date: put the output of ./sft --help, and of ./sft --help "
                        "model, into its text blocks");
  }
}

BOOST_AUTO_TEST_SUITE_END()
