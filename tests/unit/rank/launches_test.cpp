// SPDX-License-Identifier: Apache-2.0
// For which models and lengths launches are put off and repeated.
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sft/rank/launches.hpp"

namespace {

using namespace sft;

/// Of a model of H hidden dims, H / 64 heads and an MLP of 3 H.
bool repeats(std::int64_t hidden, std::int64_t tokens, std::optional<bool> chosen = {},
             device::Kind kind = device::Kind::cuda, const config::Lora& lora = {}) {
  config::Config config;
  config.lora = lora;
  config.device.cuda_graphs = chosen;
  config::Model& m = config.model;
  m.hidden_size = hidden;
  m.num_hidden_layers = 1;
  m.num_attention_heads = m.num_key_value_heads = hidden / 64;
  m.head_dim = 64;
  m.intermediate_size = 3 * hidden;
  m.vocab_size = 64;
  const model::Architecture architecture = model::make_architecture(
      m, [&](const std::string&) { return !lora.use_peft; }, lora);
  model::Sizes sizes{};
  sizes.tokens = tokens;
  sizes.hidden = hidden;
  sizes.compute = DType::bf16;
  return rank::repeats_launches(config, architecture.parameters, sizes, kind);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(launches)

BOOST_AUTO_TEST_CASE(auto_is_for_few_tokens_of_small_models) {
  BOOST_TEST(repeats(256, 512));
  BOOST_TEST(repeats(512, 256));
  BOOST_TEST(!repeats(512, 512));
  BOOST_TEST(!repeats(4096, 1));  // reading the weights of a block takes longer than to launch it
}

BOOST_AUTO_TEST_CASE(adapters_have_so_many_launches_that_it_is_for_more_tokens) {
  const auto repeats_with = [](std::int64_t tokens, const std::vector<std::string>& targets, double dropout,
                               bool use_dora) {
    config::Lora lora;
    lora.use_peft = true;
    lora.lora_target_modules = targets;
    lora.lora_dropout = dropout;
    lora.use_dora = use_dora;
    return repeats(1024, tokens, {}, device::Kind::cuda, lora);
  };
  BOOST_TEST(!repeats(1024, 384));
  BOOST_TEST(repeats_with(384, {"all-linear"}, 0.0, false));
  BOOST_TEST(!repeats_with(384, {"q_proj", "v_proj"}, 0.0, false));
  BOOST_TEST(!repeats_with(448, {"all-linear"}, 0.0, false));
  BOOST_TEST(repeats_with(448, {"all-linear"}, 0.05, false));
  BOOST_TEST(!repeats_with(896, {"all-linear"}, 0.05, false));
  BOOST_TEST(repeats_with(896, {"all-linear"}, 0.05, true));
}

BOOST_AUTO_TEST_CASE(a_choice_is_taken_on_gpus) {
  BOOST_TEST(repeats(4096, 8192, true));
  BOOST_TEST(!repeats(256, 16, false));
  BOOST_TEST(!repeats(256, 16, {}, device::Kind::cpu));
  BOOST_TEST(!repeats(256, 16, true, device::Kind::cpu));
}

BOOST_AUTO_TEST_SUITE_END()
