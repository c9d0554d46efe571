// SPDX-License-Identifier: Apache-2.0
// A config.json that is written: it is read as the same model, by both versions of transformers.

#include "sft/hub/model_config.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config_texts.hpp"
#include "sft/config/parse.hpp"
#include "support/error_text.hpp"

using namespace sft;
using nlohmann::json;
using test::config_of;
using test::mentions;
using test::read;
using test::rope_of;
using test::text_of;

BOOST_AUTO_TEST_SUITE(made_config)

BOOST_AUTO_TEST_CASE(a_config_json_that_is_made_is_read_as_the_same_model) {
  config::Model model = read(config_of("LlamaForCausalLM")).model;
  model.initializer_range = 0.05;
  const auto check = [](const config::Model& made) {
    const std::string text = hub::make_config_json(made, hub::WeightType::bfloat16, "", 256);
    const hub::ModelConfig again = hub::parse_model_config(text, "made");
    BOOST_TEST(text_of(again.model) == text_of(made));
    BOOST_TEST(again.warnings.empty());
    BOOST_TEST(mentions(text, {R"("torch_dtype": "bfloat16")"}));
  };
  check(model);
  model.rope_scaling = {.rope_type = config::RopeType::yarn, .factor = 3.0, .attention_factor = 1.25};
  model.max_position_embeddings = 3 * 8192;
  check(model);
  model.rope_scaling = {
      .rope_type = config::RopeType::dynamic, .factor = 3.0, .original_max_position_embeddings = 3 * 8192};
  check(model);
  model.attention_bias = model.attention_output_bias = model.mlp_bias = true;
  check(model);
  model.attention_output_bias = model.mlp_bias = false;
  check(model);
  model.attention_bias = false;
  model.no_rope_layers = {1, 0};
  model.num_hidden_layers = 2;
  check(model);
  model.residual_multiplier = 0.5;
  BOOST_TEST(mentions(
      test::data_error_of([&] { static_cast<void>(hub::make_config_json(model, hub::WeightType::float32, "", 1)); }),
      {"no family"}));
  model.no_rope_layers.clear();
  model.attention_multiplier = 0.125;
  check(model);
  model.residual_multiplier = 1.0;
  model.attention_multiplier = 0.0;
  const config::RopeScaling dynamic = model.rope_scaling;
  model.block_norms = config::BlockNorms::glm4;
  model.partial_rotary_factor = 0.5;
  check(model);
  model.block_norms = config::BlockNorms::pre;
  check(model);
  model.partial_rotary_factor = 1.0;
  model.rope_scaling = {.rope_type = config::RopeType::longrope,
                        .factor = 4.0,
                        .original_max_position_embeddings = 64,
                        .attention_factor = std::sqrt(1 + std::log(4.0) / std::log(64.0)),
                        .short_factor = {1, 1, 1, 1},
                        .long_factor = {2, 2, 2, 2}};
  model.max_position_embeddings = 256;
  check(model);
  model.rope_scaling = {.rope_type = config::RopeType::yarn, .factor = 4.0, .original_max_position_embeddings = 64};
  model.llama_4_scaling_beta = 0.25;
  check(model);
  model.llama_4_scaling_beta = 0.0;
  model.max_position_embeddings = 3 * 8192;
  model.rope_scaling = dynamic;
  model.sliding_window = 16;
  check(model);  // Mistral
  model.layer_types = {"sliding_attention", "full_attention"};
  model.attention_bias = true;
  check(model);  // Qwen2
  model.attention_bias = false;
  BOOST_TEST(mentions(
      test::data_error_of([&] { static_cast<void>(hub::make_config_json(model, hub::WeightType::float32, "", 1)); }),
      {"no family"}));
  model.qk_norm = true;
  check(model);
  model.layer_types.clear();
  model.sliding_window = 0;
  model.qk_norm = true;
  check(model);
  const config::Model dense = model;
  model.num_experts = 6;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 24;
  model.mlp_only_layers = {1};
  model.router_aux_loss_coef = 0.02;
  check(model);  // Qwen3-MoE
  model.norm_topk_prob = true;
  model.sliding_window = 16;
  check(model);
  model.qk_norm = false;
  model.mlp_only_layers.clear();
  model.moe_intermediate_size = model.intermediate_size;
  check(model);  // Mixtral
  model.sliding_window = 0;
  model.router_aux_loss_coef = 0.0;
  model.scoring_func = config::ScoringFunc::sigmoid;
  model.n_shared_experts = 1;
  check(model);  // GLM-4.5
  model.attention_bias = model.qk_norm = true;
  model.partial_rotary_factor = 0.5;
  model.num_experts = 8;
  model.n_group = 4;
  model.topk_group = 2;
  model.routed_scaling_factor = 2.5;
  model.n_shared_experts = 3;
  model.mlp_only_layers = {0};
  check(model);
  model.mlp_only_layers = {1};  // not the first
  BOOST_TEST(mentions(
      test::data_error_of([&] { static_cast<void>(hub::make_config_json(model, hub::WeightType::float32, "", 1)); }),
      {"no family"}));
  model = dense;
  model.num_experts = 6;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = model.intermediate_size;
  model.norm_topk_prob = true;
  model.qk_norm = false;
  model.attention_bias = true;
  BOOST_TEST(mentions(
      test::data_error_of([&] { static_cast<void>(hub::make_config_json(model, hub::WeightType::float32, "", 1)); }),
      {"no family"}));
  model.attention_output_bias = model.attention_sinks = true;
  model.expert_form = config::ExpertForm::gpt_oss;
  model.swiglu_limit = 3.0;
  model.sliding_window = 16;
  model.layer_types = {"sliding_attention", "full_attention"};
  check(model);  // gpt-oss
  model = dense;
  model.mlp_bias = true;
  BOOST_TEST(mentions(
      test::data_error_of([&] { static_cast<void>(hub::make_config_json(model, hub::WeightType::float32, "", 1)); }),
      {"no family"}));
}

BOOST_AUTO_TEST_CASE(a_rotary_embedding_in_the_newer_form_is_written_in_the_older_one_as_well) {
  const auto written = [](const json& more) {
    const json original = config_of("LlamaForCausalLM", more);
    json made = json::parse(hub::make_config_json({}, hub::WeightType::float32, original.dump(), 1));
    BOOST_TEST(text_of(read(made).model) == text_of(read(original).model));
    json older = made;
    older.erase("rope_parameters");
    BOOST_TEST(text_of(read(older).model) == text_of(read(original).model));
    return made;
  };
  const json plain = written({{"rope_parameters", {{"rope_theta", 1000000}, {"rope_type", "default"}}}});
  BOOST_TEST(plain["rope_theta"].dump() == "1000000");
  BOOST_TEST(plain["rope_scaling"].is_null());
  BOOST_TEST(plain["rope_parameters"]["rope_theta"] == 1000000);

  const json llama3 = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  json parameters = rope_of("llama3", llama3);
  parameters["rope_theta"] = 500000.0;
  parameters["partial_rotary_factor"] = 1.0;
  const json scaled = written({{"rope_theta", 1.0}, {"rope_scaling", nullptr}, {"rope_parameters", parameters}});
  BOOST_TEST(scaled["rope_theta"] == 500000.0);
  BOOST_TEST(scaled["rope_scaling"] == rope_of("llama3", llama3));

  // What version 5 fills in, and a field that it alone reads there.
  const json yarn =
      written({{"original_max_position_embeddings", 512}, {"rope_parameters", {{"type", "yarn"}, {"beta_fast", 16}}}});
  BOOST_TEST(yarn["rope_theta"] == 10000.0);
  BOOST_TEST(yarn["rope_scaling"]["factor"] == 4.0);
  BOOST_TEST(yarn["rope_scaling"]["original_max_position_embeddings"] == 512);
  BOOST_TEST(!yarn["rope_scaling"].contains("attention_factor"));

  // Version 5 takes rope_scaling where both are there.
  const json both = written({{"rope_scaling", rope_of("linear", {{"factor", 2.0}, {"rope_theta", 7.0}})},
                             {"rope_parameters", {{"rope_theta", 9.0}, {"rope_type", "default"}}}});
  BOOST_TEST(both["rope_theta"] == 7.0);
  BOOST_TEST(both["rope_scaling"]["rope_type"] == "linear");
}

BOOST_AUTO_TEST_CASE(experts_are_written_under_the_name_that_version_4_reads) {
  const json original = config_of("Qwen3MoeForCausalLM", {{"num_local_experts", 6}, {"model_type", "qwen3_moe"}});
  const json made = json::parse(hub::make_config_json({}, hub::WeightType::float32, original.dump(), 1));
  BOOST_TEST((made["num_experts"] == 6 && made["num_local_experts"] == 6));
}

BOOST_AUTO_TEST_CASE(fields_of_the_original_stay_but_for_the_dtype) {
  const json original = config_of("Qwen2ForCausalLM", {{"eos_token_id", {1, 2}}, {"dtype", "float16"}, {"extra", 7}});
  const json made = json::parse(hub::make_config_json({}, hub::WeightType::float32, original.dump(), 1));
  json expected = original;
  expected["dtype"] = "float32";
  BOOST_TEST(made.dump() == expected.dump());
}

BOOST_AUTO_TEST_SUITE_END()
