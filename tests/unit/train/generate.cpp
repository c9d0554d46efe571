// SPDX-License-Identifier: Apache-2.0
// A tiny model learns one document by heart; generation recites it from its beginning and heeds where to end.

#define BOOST_TEST_NO_MAIN
#define BOOST_TEST_MODULE train_generate
#include "sft/train/generate.hpp"

#include <span>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_test_main.hpp"

namespace {

using namespace sft;

constexpr std::int64_t max_length = 16;
const std::vector<std::int32_t> document{3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 7, 20};

config::Config example() {
  config::Config config;
  config.model = test::small_qwen2();
  config.train.per_device_train_batch_size = 1;
  config.train.precision = config::Precision::fp32;
  return config;
}

test::EngineFixture& trained() {
  static auto fixture = [] {
    auto result = std::make_unique<test::EngineFixture>(example(), max_length, test::make_lone_mesh(example().model),
                                                        test::session());
    result->engine().initialize();
    data::Row row{document, std::vector<float>(document.size(), 1.0F), {static_cast<std::int32_t>(document.size())}};
    row.tokens.resize(max_length);
    row.loss_weight.resize(max_length);
    double loss = 0.0;
    for (std::int64_t step = 0; step < 80; ++step) loss = result->step({row}, step, 1e-2).loss;
    BOOST_TEST_REQUIRE(loss < 0.1);
    return result;
  }();
  return *fixture;
}

std::vector<std::int32_t> recite(std::size_t prompt_size, const train::GenerateOptions& options) {
  return train::generate(trained().engine(), std::span(document).first(prompt_size), options);
}

}  // namespace

BOOST_AUTO_TEST_CASE(recites_what_it_learned) {
  for (const std::size_t prompt_size : {1, 4, 7}) {
    const auto num_rest = static_cast<std::int64_t>(document.size() - prompt_size);
    const std::vector<std::int32_t> rest(document.begin() + static_cast<std::ptrdiff_t>(prompt_size), document.end());
    BOOST_TEST(recite(prompt_size, {num_rest, test::small_vocab_size, {}}) == rest, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(ends_before_a_stop_token) {
  const std::vector<std::int32_t> until_5{4, 15, 9, 2, 6};
  BOOST_TEST(recite(2, {14, test::small_vocab_size, {33, 5}}) == until_5, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(produces_only_ids_that_the_tokenizer_knows) {
  for (const std::int32_t token : recite(3, {12, 9, {}})) BOOST_TEST(token < 9);
}
