// SPDX-License-Identifier: Apache-2.0
// config.json of families whose layers are Llama's but for norms, biases, rotation and names.

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config_texts.hpp"
#include "sft/hub/model_config.hpp"
#include "support/error_text.hpp"

using namespace sft;
using nlohmann::json;
using test::config_of;
using test::mentions;
using test::read;
using test::refusal;

BOOST_AUTO_TEST_SUITE(llama_skeletons)

BOOST_AUTO_TEST_CASE(layers_of_exaone_4_that_see_all_are_not_rotated_beside_windows) {
  const auto exaone = [](const json& more) { return read(config_of("Exaone4ForCausalLM", more)).model; };
  const config::Model hybrid = exaone({{"sliding_window_pattern", 2}, {"sliding_window", 8}});
  BOOST_TEST((hybrid.qk_norm && !hybrid.qk_norm_all_heads));
  BOOST_TEST((hybrid.block_norms == config::BlockNorms::olmo2));
  BOOST_TEST(hybrid.no_rope_layers == (std::vector{1, 0, 1}));
  BOOST_TEST((hybrid.window_of(0) == 8 && hybrid.window_of(1) == 0));
  const config::Model plain = exaone({{"sliding_window", nullptr}});
  BOOST_TEST((plain.no_rope_layers.empty() && plain.sliding_window == 0));
  const json letters = {{"sliding_window_pattern", "LLLG"}};
  BOOST_TEST(
      mentions(refusal(config_of("Exaone4ForCausalLM", letters)), {"sliding_window_pattern", "add layer_types"}));
}

BOOST_AUTO_TEST_CASE(dropout_of_seed_oss_is_taken_as_none_and_said) {
  const auto folder = read(config_of("SeedOssForCausalLM", {{"attention_out_bias", true}}));
  BOOST_TEST((folder.model.attention_bias && folder.model.attention_output_bias && !folder.model.mlp_bias));
  BOOST_REQUIRE(!folder.warnings.empty());
  BOOST_TEST(mentions(folder.warnings.front(), {"residual_dropout", "taken as 0"}));
  const json none = {{"attention_dropout", 0.0}, {"residual_dropout", 0.0}};
  BOOST_TEST(read(config_of("SeedOssForCausalLM", none)).warnings.empty());
}

BOOST_AUTO_TEST_CASE(granite_4_is_read_without_recurrences_and_experts) {
  const json attention = {"attention", "attention", "attention"};
  const auto granite = [&](const json& more) {
    json all = {{"layer_types", attention},
                {"num_local_experts", 0},
                {"shared_intermediate_size", 40},
                {"position_embedding_type", "rope"}};
    all.update(more);
    return config_of("GraniteMoeHybridForCausalLM", all);
  };
  const config::Model model = read(granite({{"residual_multiplier", 0.5}})).model;
  BOOST_TEST(model.intermediate_size == 40);
  BOOST_TEST(model.residual_multiplier == 0.5);
  BOOST_TEST(model.no_rope_layers.empty());
  BOOST_TEST(read(granite({{"position_embedding_type", "nope"}})).model.no_rope_layers == (std::vector{0, 0, 0}));
  BOOST_TEST(mentions(refusal(granite({{"num_local_experts", 4}})), {"num_local_experts", "experts of this family"}));
  const json mamba = {{"layer_types", {"mamba", "attention", "mamba"}}};
  BOOST_TEST(mentions(refusal(granite(mamba)), {"layer_types", "Mamba-2"}));
}

BOOST_AUTO_TEST_CASE(minimax_m2_rotates_a_part_of_heads_and_has_sigmoid_scores) {
  const auto minimax = [](const json& more) { return config_of("MiniMaxM2ForCausalLM", more); };
  const config::Model model = read(minimax({{"rotary_dim", 64}, {"num_local_experts", 16}})).model;
  BOOST_TEST(model.partial_rotary_factor == 0.5);  // of heads of 128
  BOOST_TEST((model.qk_norm && model.qk_norm_all_heads && model.norm_topk_prob));
  BOOST_TEST((model.scoring_func == config::ScoringFunc::sigmoid));
  BOOST_TEST(model.num_experts == 16);
  BOOST_TEST(model.router_aux_loss_coef == 0.0);
  const auto warnings = read(minimax(json::object())).warnings;
  BOOST_REQUIRE(!warnings.empty());
  BOOST_TEST(mentions(warnings.front(), {"router_aux_loss_coef", "taken as 0"}));
  BOOST_TEST(read(minimax({{"router_aux_loss_coef", 0.0}})).warnings.empty());
  const json share = {{"rotary_dim", 64}, {"partial_rotary_factor", 1.0}};
  BOOST_TEST(read(minimax(share)).model.partial_rotary_factor == 1.0);
  BOOST_TEST(mentions(refusal(minimax({{"rotary_dim", 0}})), {"rotary_dim", "no dim"}));
  BOOST_TEST(mentions(refusal(minimax({{"attn_type_list", {1, 0, 1}}})), {"attn_type_list", "softmax"}));
  BOOST_TEST(mentions(refusal(minimax({{"router_jitter_noise", 0.1}})), {"router_jitter_noise"}));
}

BOOST_AUTO_TEST_CASE(the_base_of_hunyuan_is_stretched_once) {
  const auto hunyuan = [](const json& more) { return read(config_of("HunYuanDenseV1ForCausalLM", more)).model; };
  const json rope = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
  const config::Model model = hunyuan({{"head_dim", 128}, {"rope_theta", 10000.0}, {"rope_scaling", rope}});
  BOOST_TEST(model.rope_theta == 10000.0 * std::pow(1000.0, 128.0 / 126.0), boost::test_tools::tolerance(1e-12));
  BOOST_TEST((model.rope_scaling.rope_type == config::RopeType::plain));
  BOOST_TEST((model.qk_norm && model.qk_norm_after_rope));
}

BOOST_AUTO_TEST_CASE(arcee_squares_a_relu_and_has_no_gate) {
  const config::Model model = read(config_of("ArceeForCausalLM", {{"mlp_bias", true}})).model;
  BOOST_TEST((model.hidden_act == config::Activation::relu2));
  BOOST_TEST((!model.gated_mlp && model.mlp_bias));
  BOOST_TEST(mentions(refusal(config_of("ArceeForCausalLM", {{"hidden_act", "silu"}})), {"hidden_act", "relu2"}));
}

BOOST_AUTO_TEST_SUITE_END()
