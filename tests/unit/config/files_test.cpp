// SPDX-License-Identifier: Apache-2.0
// The committed files that must agree with the table of keys: inputs/*.ini.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "support/config_error.hpp"

using namespace sft;

namespace {

const std::filesystem::path source_folder = SFT_SOURCE_DIR;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A model of any sizes, as if they had been read where the name points to.
config::Model sized_model(const std::string& name) {
  config::Model model;
  model.model_name_or_path = name;
  model.hidden_size = 64;
  model.num_hidden_layers = 2;
  model.num_attention_heads = 4;
  model.intermediate_size = 128;
  model.vocab_size = 512;
  return model;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(every_example_runs_as_its_first_line_says) {
  int num_examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder / "inputs")) {
    if (entry.path().extension() != ".ini") continue;
    ++num_examples;
    const std::string name = "inputs/" + entry.path().filename().string();
    const std::string text = read_file(entry.path());
    const std::string first_line = text.substr(0, text.find('\n'));
    std::smatch match;
    BOOST_TEST_REQUIRE(std::regex_match(first_line, match, std::regex("# mpirun -np (\\d+) ./sft (\\S+)")), name);
    BOOST_TEST(match[2].str() == name);
    config::Config config = config::parse(text, {}, name);
    if (!config.model.model_name_or_path.empty()) config.model = sized_model(config.model.model_name_or_path);
    BOOST_CHECK_NO_THROW((void)config::validate(config, std::stoi(match[1])));
  }
  BOOST_TEST(num_examples >= 5);
}

BOOST_AUTO_TEST_SUITE_END()
