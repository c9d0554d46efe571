// SPDX-License-Identifier: Apache-2.0
// config.json of the families: what is taken over, what is the family's default, what is refused, what is named.

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
using test::refusal;
using test::rope_of;
using test::text_of;

BOOST_AUTO_TEST_SUITE(model_config)

BOOST_AUTO_TEST_CASE(fields_that_are_not_there_have_the_defaults_of_the_family) {
  const config::Model llama = read(config_of("LlamaForCausalLM")).model;
  BOOST_TEST(llama.num_key_value_heads == 8);
  BOOST_TEST(llama.head_dim == 8);
  BOOST_TEST(llama.max_position_embeddings == 2048);
  BOOST_TEST(llama.rms_norm_eps == 1e-6);
  BOOST_TEST(llama.rope_theta == 10000.0);
  BOOST_TEST(!llama.tie_word_embeddings);
  BOOST_TEST((!llama.attention_bias && !llama.attention_output_bias && !llama.mlp_bias && !llama.qk_norm));
  const config::Model mistral = read(config_of("MistralForCausalLM")).model;
  BOOST_TEST(mistral.num_key_value_heads == 8);
  BOOST_TEST(mistral.sliding_window == 4096);
  const config::Model qwen2 = read(config_of("Qwen2ForCausalLM", {{"num_attention_heads", 64}})).model;
  BOOST_TEST(qwen2.num_key_value_heads == 32);
  BOOST_TEST((qwen2.attention_bias && !qwen2.attention_output_bias));
  BOOST_TEST(qwen2.sliding_window == 0);
  const config::Model qwen3 = read(config_of("Qwen3ForCausalLM", {{"num_key_value_heads", nullptr}})).model;
  BOOST_TEST(qwen3.num_key_value_heads == 8);
  BOOST_TEST(qwen3.head_dim == 128);
  BOOST_TEST(qwen3.qk_norm);
}

BOOST_AUTO_TEST_CASE(parts_of_the_families) {
  const config::Model llama =
      read(config_of("LlamaForCausalLM",
                     {{"attention_bias", true}, {"mlp_bias", true}, {"head_dim", 20}, {"tie_word_embeddings", true}}))
          .model;
  BOOST_TEST((llama.attention_bias && llama.attention_output_bias && llama.mlp_bias && llama.tie_word_embeddings));
  BOOST_TEST(llama.head_dim == 20);
  const config::Model qwen3 = read(config_of("Qwen3ForCausalLM", {{"attention_bias", true}})).model;
  BOOST_TEST((qwen3.attention_bias && qwen3.attention_output_bias));
  json by_type = config_of("", {{"model_type", "mistral"}, {"sliding_window", nullptr}});
  by_type.erase("architectures");
  BOOST_TEST(read(by_type).model.sliding_window == 0);
}

BOOST_AUTO_TEST_CASE(experts) {
  const config::Model qwen = read(config_of("Qwen3MoeForCausalLM")).model;
  BOOST_TEST((qwen.num_experts == 128 && qwen.num_experts_per_tok == 8 && qwen.moe_intermediate_size == 768));
  BOOST_TEST((qwen.qk_norm && !qwen.norm_topk_prob && qwen.mlp_only_layers.empty()));
  BOOST_TEST(qwen.router_aux_loss_coef == 0.001);
  const hub::ModelConfig more = read(config_of("Qwen3MoeForCausalLM", {{"num_experts", 16},
                                                                       {"decoder_sparse_step", 2},
                                                                       {"mlp_only_layers", {1}},
                                                                       {"num_hidden_layers", 4},
                                                                       {"norm_topk_prob", true},
                                                                       {"max_window_layers", 3},
                                                                       {"output_router_logits", true},
                                                                       {"use_sliding_window", true},
                                                                       {"sliding_window", 7}}));
  BOOST_TEST(more.model.mlp_only_layers == (std::vector{0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST((more.model.num_experts == 16 && more.model.norm_topk_prob && more.model.sliding_window == 7));
  BOOST_TEST(more.warnings.empty());
  const config::Model mixtral = read(config_of("MixtralForCausalLM", {{"num_local_experts", 4}})).model;
  BOOST_TEST((mixtral.num_experts == 4 && mixtral.num_experts_per_tok == 2 && mixtral.norm_topk_prob));
  BOOST_TEST((mixtral.moe_intermediate_size == mixtral.intermediate_size && mixtral.sliding_window == 0));
  const json yarn =
      rope_of("yarn", {{"factor", 32.0}, {"original_max_position_embeddings", 4096}, {"truncate", false}});
  const hub::ModelConfig oss =
      read(config_of("GptOssForCausalLM", {{"rope_scaling", yarn},
                                           {"num_local_experts", 32},
                                           {"experts_per_token", 4},
                                           {"initial_context_length", 4096},
                                           {"swiglu_limit", 5.0},
                                           {"router_aux_loss_coef", 0.9},
                                           {"quantization_config", {{"quant_method", "mxfp4"}}}}));
  BOOST_TEST((oss.model.expert_form == config::ExpertForm::gpt_oss && oss.model.attention_sinks));
  BOOST_TEST((oss.model.num_experts == 32 && oss.model.num_experts_per_tok == 4 && oss.model.norm_topk_prob));
  BOOST_TEST((oss.model.swiglu_limit == 5.0 && oss.model.router_aux_loss_coef == 0.9));
  BOOST_TEST((oss.model.attention_bias && oss.model.attention_output_bias && oss.model.head_dim == 64));
  BOOST_TEST((oss.model.sliding_window == 128 && oss.model.layer_types.front() == "sliding_attention"));
  BOOST_TEST(oss.model.layer_types.at(1) == "full_attention");
  BOOST_TEST(oss.warnings.empty());
  BOOST_TEST(mentions(refusal({{"rope_scaling", nullptr}}, "GptOssForCausalLM"), {"rope_scaling", "yarn"}));
  BOOST_TEST(mentions(
      refusal({{"rope_scaling", yarn}, {"quantization_config", {{"quant_method", "gptq"}}}}, "GptOssForCausalLM"),
      {"quantization_config"}));
  BOOST_TEST(mentions(refusal({{"router_jitter_noise", 0.1}}, "MixtralForCausalLM"), {"router_jitter_noise = 0.1"}));
  BOOST_TEST(mentions(refusal({{"mlp_only_layers", {0, 1, 2}}}, "Qwen3MoeForCausalLM"), {"no layer has experts"}));
}

BOOST_AUTO_TEST_CASE(experts_of_glm) {
  const hub::ModelConfig found = read(config_of("Glm4MoeForCausalLM", {{"num_hidden_layers", 4},
                                                                       {"first_k_dense_replace", 2},
                                                                       {"num_nextn_predict_layers", 1},
                                                                       {"routed_scaling_factor", 2.5},
                                                                       {"use_qk_norm", true},
                                                                       {"n_group", 4},
                                                                       {"topk_group", 2},
                                                                       {"n_shared_experts", 3}}));
  const config::Model& model = found.model;
  BOOST_TEST(found.warnings.empty());
  BOOST_TEST((model.num_experts == 128 && model.num_experts_per_tok == 8 && model.moe_intermediate_size == 1408));
  BOOST_TEST((model.scoring_func == config::ScoringFunc::sigmoid && model.norm_topk_prob && model.qk_norm));
  BOOST_TEST((model.n_group == 4 && model.topk_group == 2 && model.routed_scaling_factor == 2.5));
  BOOST_TEST((model.n_shared_experts == 3 && model.router_aux_loss_coef == 0.0));
  BOOST_TEST((model.partial_rotary_factor == 0.5 && !model.attention_bias));
  BOOST_TEST(model.mlp_only_layers == (std::vector{0, 1}), boost::test_tools::per_element());
  BOOST_TEST(mentions(refusal({{"first_k_dense_replace", 3}}, "Glm4MoeForCausalLM"), {"no layer has experts"}));
  BOOST_TEST(mentions(refusal({{"n_shared_experts", 0}}, "Glm4MoeForCausalLM"), {"n_shared_experts = 0"}));
}

BOOST_AUTO_TEST_CASE(layers_that_are_not_rotated) {
  const auto rotated = [](const json& more) {
    return read(config_of("SmolLM3ForCausalLM", more)).model.no_rope_layers;
  };
  BOOST_TEST(rotated(json::object()) == (std::vector{1, 1, 1}));
  BOOST_TEST(rotated({{"no_rope_layer_interval", 2}}) == (std::vector{1, 0, 1}));
  BOOST_TEST(rotated({{"no_rope_layers", {0, 1, 1, 0}}, {"no_rope_layer_interval", 2}}) == (std::vector{0, 1, 1}));
  const config::Model model = read(config_of("SmolLM3ForCausalLM")).model;
  BOOST_TEST((model.tie_word_embeddings && model.rope_theta == 2000000.0 && model.num_key_value_heads == 4));
  const auto refused = [](const json& more) { return refusal(more, "SmolLM3ForCausalLM"); };
  BOOST_TEST(mentions(refused({{"no_rope_layers", {1, 0}}}), {"no_rope_layers", "there are 3 layers"}));
  BOOST_TEST(mentions(refused({{"no_rope_layers", {1, true, 1}}}), {"a list of whole numbers"}));
  BOOST_TEST(mentions(refused({{"no_rope_layer_interval", 0}}), {"no_rope_layer_interval"}));
}

BOOST_AUTO_TEST_CASE(windows_on_layers_that_are_not_rotated) {
  const auto windows = [](const json& more) {
    const config::Model model = read(config_of("SmolLM3ForCausalLM", more)).model;
    return std::vector{model.window_of(0), model.window_of(1), model.window_of(2)};
  };
  using Windows = std::vector<std::int64_t>;
  const json window = {{"use_sliding_window", true}, {"sliding_window", 8}, {"no_rope_layers", {1, 0, 1}}};
  BOOST_TEST(windows(window) == (Windows{0, 8, 0}));
  json listed = window;
  listed["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  BOOST_TEST(windows(listed) == (Windows{8, 0, 0}));
  listed["use_sliding_window"] = false;
  BOOST_TEST(mentions(refusal(listed, "SmolLM3ForCausalLM"), {"layer_types", "use_sliding_window"}));
  BOOST_TEST(windows({{"sliding_window", 8}, {"no_rope_layers", {1, 0, 1}}}) == (Windows{0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(the_padding_token) {
  const auto padding = [](const char* architecture, const json& more) {
    return read(config_of(architecture, more)).model.pad_token_id;
  };
  const std::int64_t vocab_size = read(config_of("LlamaForCausalLM")).model.vocab_size;
  BOOST_TEST(padding("LlamaForCausalLM", json::object()) == -1);
  BOOST_TEST(padding("LlamaForCausalLM", {{"pad_token_id", 3}}) == 3);
  BOOST_TEST(padding("LlamaForCausalLM", {{"pad_token_id", -1}}) == vocab_size - 1);  // as torch.nn.Embedding counts
  BOOST_TEST(padding("LlamaForCausalLM", {{"pad_token_id", vocab_size}}) == -1);
  BOOST_TEST(padding("Gemma2ForCausalLM", json::object()) == 0);
  BOOST_TEST(padding("Gemma2ForCausalLM", {{"pad_token_id", nullptr}}) == -1);
  BOOST_TEST(padding("Olmo2ForCausalLM", json::object()) == 1);
  BOOST_TEST(mentions(refusal({{"pad_token_id", "x"}}), {"pad_token_id", "a whole number"}));
}

BOOST_AUTO_TEST_CASE(multipliers_of_granite) {
  const config::Model plain = read(config_of("GraniteForCausalLM")).model;
  BOOST_TEST((plain.embedding_multiplier == 1.0 && plain.attention_multiplier == 1.0));
  BOOST_TEST((plain.residual_multiplier == 1.0 && plain.logits_scaling == 1.0));
  const config::Model model = read(config_of("GraniteForCausalLM", {{"embedding_multiplier", 12},
                                                                    {"attention_multiplier", 0.015625},
                                                                    {"residual_multiplier", 0.22},
                                                                    {"logits_scaling", 16.0}}))
                                  .model;
  BOOST_TEST((model.embedding_multiplier == 12.0 && model.attention_multiplier == 0.015625));
  BOOST_TEST((model.residual_multiplier == 0.22 && model.logits_scaling == 16.0));
  BOOST_TEST(mentions(refusal({{"logits_scaling", 0}}, "GraniteForCausalLM"), {"logits_scaling"}));
}

BOOST_AUTO_TEST_CASE(sliding_windows_that_act_are_kept) {
  const json window = {{"use_sliding_window", true}, {"sliding_window", 32}, {"num_key_value_heads", 8}};
  const auto window_of = [&](const json& more) {
    json fields = window;
    fields.update(more);
    const config::Model model = read(config_of("Qwen2ForCausalLM", fields)).model;
    BOOST_TEST(model.layer_types.size() == (model.sliding_window > 0 ? 3U : 0U));
    return model.sliding_window;
  };
  const json some = [&] {
    json fields = window;
    fields["max_window_layers"] = 2;
    return fields;
  }();
  const std::vector<std::string> last_slides = {"full_attention", "full_attention", "sliding_attention"};
  BOOST_TEST((read(config_of("Qwen3ForCausalLM", some)).model.layer_types == last_slides));
  BOOST_TEST(window_of({{"max_window_layers", 2}}) == 32);
  BOOST_TEST(window_of({{"max_window_layers", 3}}) == 0);
  BOOST_TEST(window_of({{"max_window_layers", 0}, {"use_sliding_window", false}}) == 0);
  const json full = {"full_attention", "full_attention", "full_attention"};
  BOOST_TEST(window_of({{"max_window_layers", 0}, {"layer_types", full}}) == 0);
  json one_slides = full;
  one_slides[1] = "sliding_attention";
  BOOST_TEST(window_of({{"layer_types", one_slides}}) == 32);
  BOOST_TEST(mentions(refusal({{"layer_types", one_slides}}, "Qwen3ForCausalLM"), {"use_sliding_window"}));
}

BOOST_AUTO_TEST_CASE(rotation_of_phi) {
  const json longrope = {{"type", "longrope"}, {"short_factor", {1.0, 1.5, 2.0}}, {"long_factor", {1.0, 3.0, 6.0}}};
  const json older = {{"rope_scaling", longrope},
                      {"partial_rotary_factor", 0.75},
                      {"max_position_embeddings", 512},
                      {"original_max_position_embeddings", 128},
                      {"sliding_window", 100}};
  const config::Model model = read(config_of("Phi3ForCausalLM", older)).model;
  BOOST_TEST(model.rotary_dim() == 6);
  BOOST_TEST((model.sliding_window == 100 && model.layer_types.empty() && model.rms_norm_eps == 1e-5));
  BOOST_TEST((model.rope_scaling.rope_type == config::RopeType::longrope && model.rope_scaling.factor == 4.0));
  BOOST_TEST((model.rope_scaling.short_factor == std::vector{1.0, 1.5, 2.0}));
  json newer = older;
  newer.erase("rope_scaling");
  newer.erase("partial_rotary_factor");
  newer["rope_parameters"] = longrope;
  newer["rope_parameters"].update({{"partial_rotary_factor", 0.75}, {"rope_theta", 10000.0}});
  BOOST_TEST(text_of(read(config_of("Phi3ForCausalLM", newer)).model) == text_of(model));
  const json original = config_of("Phi3ForCausalLM", newer);
  const json made = json::parse(hub::make_config_json({}, hub::WeightType::float32, original.dump(), 1));
  BOOST_TEST(made["rope_scaling"].size() == 3U);  // more is refused by transformers 4
  json without_newer = made;
  without_newer.erase("rope_parameters");
  BOOST_TEST(text_of(read(without_newer).model) == text_of(model));
  BOOST_TEST(mentions(refusal({{"resid_pdrop", 0.1}}, "Phi3ForCausalLM"), {"resid_pdrop"}));

  // A factor of cosines that does not follow from the context: version 4 has no place for it, and has to refuse.
  json scaled = original;
  scaled["rope_parameters"]["attention_factor"] = 1.4;
  const json written = json::parse(hub::make_config_json({}, hub::WeightType::float32, scaled.dump(), 1));
  BOOST_TEST(written["rope_scaling"]["attention_factor"] == 1.4);
  BOOST_TEST(text_of(read(written).model) == text_of(read(scaled).model));

  json inner = longrope;
  inner["original_max_position_embeddings"] = 128;
  const json unsaid = {{"rope_parameters", inner}, {"partial_rotary_factor", 0.75}, {"max_position_embeddings", 8192}};
  BOOST_TEST(read(config_of("Phi3ForCausalLM", unsaid)).model.rope_scaling.original_max_position_embeddings == 4096);
}

BOOST_AUTO_TEST_CASE(the_share_of_dims_that_glm_rotates_is_written_in_the_older_form) {
  json linear = rope_of("linear", {{"factor", 4.0}, {"rope_theta", 10000.0}});
  linear["partial_rotary_factor"] = 1.0;
  const json original = config_of("Glm4ForCausalLM", {{"rope_parameters", linear}});
  const json made = json::parse(hub::make_config_json({}, hub::WeightType::float32, original.dump(), 1));
  BOOST_TEST(made["partial_rotary_factor"] == 1.0);
  BOOST_TEST(text_of(read(made).model) == text_of(read(original).model));
}

BOOST_AUTO_TEST_CASE(queries_that_grow_and_norms_of_branches) {
  json yarn = rope_of("yarn", {{"factor", 16.0},
                               {"original_max_position_embeddings", 16384},
                               {"max_position_embeddings", 262144},
                               {"rope_theta", 1000000.0},
                               {"mscale", 1.0},
                               {"mscale_all_dim", 1.0},
                               {"llama_4_scaling_beta", 0.1}});
  const hub::ModelConfig ministral = read(config_of("Ministral3ForCausalLM", {{"rope_parameters", yarn}}));
  BOOST_TEST((ministral.model.llama_4_scaling_beta == 0.1 && ministral.model.rope_scaling.attention_factor == 1.0));
  BOOST_TEST((ministral.model.head_dim == 128 && ministral.model.sliding_window == 0));
  BOOST_TEST(ministral.warnings.empty());
  BOOST_TEST(mentions(refusal({{"rope_scaling", nullptr}}, "Ministral3ForCausalLM"), {"rope_scaling", "says nothing"}));
  BOOST_TEST(text_of(read(config_of("Ministral3ForCausalLM")).model) == text_of(ministral.model));  // not mentioned
  BOOST_TEST(mentions(refusal({{"rope_scaling", nullptr}}, "GptOssForCausalLM"), {"rope_scaling", "yarn"}));
  const config::Model oss = read(config_of("GptOssForCausalLM")).model;
  BOOST_TEST((oss.rope_scaling.factor == 32.0 && !oss.rope_scaling.truncate && oss.rope_theta == 150000.0));
  const config::Model glm = read(config_of("Glm4ForCausalLM")).model;
  BOOST_TEST((glm.block_norms == config::BlockNorms::glm4));
  BOOST_TEST((glm.rotary_dim() == 64 && glm.attention_bias && !glm.attention_output_bias));
}

BOOST_AUTO_TEST_CASE(norms_windows_and_rotary_embeddings_of_olmo) {
  const config::Model olmo2 = read(config_of("Olmo2ForCausalLM")).model;
  BOOST_TEST((olmo2.block_norms == config::BlockNorms::olmo2 && olmo2.qk_norm && olmo2.qk_norm_all_heads));
  BOOST_TEST((olmo2.rms_norm_eps == 1e-5 && olmo2.sliding_window == 0 && olmo2.rope_local_base_freq == 0.0));
  BOOST_TEST((!olmo2.attention_bias && olmo2.num_key_value_heads == 8));
  BOOST_TEST(read(config_of("Olmo2ForCausalLM", {{"attention_bias", true}})).model.attention_output_bias);

  const json yarn = rope_of("yarn", {{"factor", 8.0}, {"original_max_position_embeddings", 8192}});
  const hub::ModelConfig older = read(config_of(
      "Olmo3ForCausalLM",
      {{"num_hidden_layers", 4}, {"rope_theta", 500000}, {"rope_scaling", yarn}, {"max_position_embeddings", 65536}}));
  BOOST_TEST(older.warnings.empty());
  const config::Model& model = older.model;
  BOOST_TEST((model.sliding_window == 4096 && model.rope_theta == 500000.0 && model.rope_local_base_freq == 500000.0));
  BOOST_TEST((model.rope_scaling.rope_type == config::RopeType::yarn && model.rope_scaling.factor == 8.0));
  BOOST_TEST((model.has_local_rope(0) && model.has_local_rope(2) && !model.has_local_rope(3)));
  json full = yarn;
  full["rope_theta"] = 500000.0;
  const json newer = {{"full_attention", full},
                      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 500000.0}}}};
  BOOST_TEST(text_of(read(config_of("Olmo3ForCausalLM", {{"num_hidden_layers", 4},
                                                         {"rope_parameters", newer},
                                                         {"max_position_embeddings", 65536}}))
                         .model) == text_of(model));
  BOOST_TEST(mentions(refusal({{"rope_parameters", yarn}}, "Olmo3ForCausalLM"), {"full_attention"}));
  json untruncated = newer;
  untruncated["full_attention"]["truncate"] = false;
  for (const char* family : {"Olmo3ForCausalLM", "Gemma3ForCausalLM"}) {
    BOOST_TEST(mentions(refusal({{"rope_parameters", untruncated}}, family), {"truncate"}), family);
  }
  const json scaled = {{"sliding_attention", yarn}};
  BOOST_TEST(mentions(refusal({{"rope_parameters", scaled}}, "Olmo3ForCausalLM"), {"sliding layers are not scaled"}));
}

BOOST_AUTO_TEST_CASE(what_gemma_has_beside_others) {
  const hub::ModelConfig read3 = read(config_of(
      "Gemma3ForCausalLM",
      {{"num_hidden_layers", 7}, {"rope_scaling", rope_of("linear", {{"factor", 8.0}})}, {"sliding_window", 1024}}));
  BOOST_TEST(read3.warnings.empty());
  const config::Model& third = read3.model;
  BOOST_TEST((third.block_norms == config::BlockNorms::gemma2 && third.zero_centered_norms && third.qk_norm));
  BOOST_TEST((third.hidden_act == config::Activation::gelu_pytorch_tanh && third.tie_word_embeddings));
  BOOST_TEST((third.embedding_multiplier == 8.0 && third.rounds_embedding_multiplier));
  BOOST_TEST((third.attention_multiplier == 0.0625 && third.head_dim == 256 && third.num_key_value_heads == 4));
  BOOST_TEST((third.rope_theta == 1000000.0 && third.rope_local_base_freq == 10000.0 && third.sliding_window == 1024));
  BOOST_TEST((third.rope_scaling.factor == 8.0 && third.final_logit_softcapping == 0.0));
  BOOST_TEST((third.has_local_rope(4) && !third.has_local_rope(5) && third.has_local_rope(6)));

  const hub::ModelConfig full =
      read(config_of("Gemma3ForCausalLM", {{"layer_types", json(3, "full_attention")}, {"sliding_window", 1024}}));
  BOOST_TEST((full.model.rope_local_base_freq == 0.0 && full.model.sliding_window == 0 && full.warnings.empty()));

  // transformers reads neither cap here.
  const json caps = {{"attn_logit_softcapping", 9.0}, {"final_logit_softcapping", 3.0}};
  const config::Model capped = read(config_of("Gemma3ForCausalLM", caps)).model;
  BOOST_TEST((capped.attn_logit_softcapping == 0.0 && capped.final_logit_softcapping == 3.0));
  const json tower = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                      {"model_type", "gemma3"},
                      {"text_config", config_of("Gemma3ForCausalLM", caps)}};
  BOOST_TEST(hub::parse_model_config(tower.dump(), "config.json").model.final_logit_softcapping == 0.0);

  const config::Model second = read(config_of("Gemma2ForCausalLM", {{"attn_logit_softcapping", nullptr}})).model;
  BOOST_TEST((second.final_logit_softcapping == 30.0 && !second.qk_norm && second.rope_local_base_freq == 0.0));
  BOOST_TEST((second.window_of(0) == 4096 && second.window_of(1) == 0 && second.window_of(2) == 4096));
  BOOST_TEST(second.attn_logit_softcapping == 0.0);
  BOOST_TEST(read(config_of("Gemma2ForCausalLM", json::object())).model.attn_logit_softcapping == 50.0);
  BOOST_TEST(mentions(refusal({{"hidden_activation", "gelu"}}, "Gemma3ForCausalLM"), {"hidden_activation"}));
  BOOST_TEST(mentions(refusal({{"use_bidirectional_attention", true}}, "Gemma3ForCausalLM"), {"causal"}));
  BOOST_TEST(mentions(refusal({{"sliding_window", 0}}, "Gemma3ForCausalLM"), {"sliding_window"}));
}

// The files that name few sizes: the others are those of the text tower's class.
BOOST_AUTO_TEST_CASE(a_tower_of_text_may_leave_out_sizes) {
  const json text = {{"model_type", "gemma3_text"}, {"hidden_size", 2560},
                     {"intermediate_size", 10240},  {"num_hidden_layers", 34},
                     {"sliding_window", 1024},      {"rope_scaling", rope_of("linear", {{"factor", 8.0}})}};
  const hub::ModelConfig config =
      read({{"architectures", {"Gemma3ForConditionalGeneration"}}, {"model_type", "gemma3"}, {"text_config", text}});
  BOOST_TEST((config.model.num_attention_heads == 8 && config.model.vocab_size == 262208));
  BOOST_TEST((config.model.head_dim == 256 && config.model.tie_word_embeddings &&
              config.model.max_position_embeddings == 131072));
}

BOOST_AUTO_TEST_CASE(families_with_two_kinds_of_layers_are_written_as_they_are_read) {
  for (const char* architecture : {"Olmo2ForCausalLM", "Olmo3ForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"}) {
    json object = config_of(architecture, {{"head_dim", 8}, {"num_key_value_heads", 8}});
    if (std::string(architecture).starts_with("Gemma2")) object["attn_logit_softcapping"] = 20.0;
    const config::Model model = read(object).model;
    const json made = json::parse(hub::make_config_json(model, hub::WeightType::float32, "", 1));
    BOOST_TEST(made["architectures"][0] == architecture);
    const hub::ModelConfig again = read(made);
    BOOST_TEST(text_of(again.model) == text_of(model), architecture);
    BOOST_TEST(again.warnings.empty(), architecture);
  }
}

BOOST_AUTO_TEST_CASE(scaled_positions_of_olmo2_are_written_as_version_4_takes_them) {
  for (const char* kind : {"linear", "dynamic"}) {
    const json expected = {{"type", kind}, {"factor", 4.0}};
    const json newer = {{"model_type", "olmo2"},
                        {"rope_parameters", {{"rope_type", kind}, {"factor", 4.0}, {"rope_theta", 5000.0}}}};
    const json original = config_of("Olmo2ForCausalLM", newer);
    const config::Model model = read(original).model;
    for (const std::string& source : {original.dump(), std::string()}) {
      const json made = json::parse(hub::make_config_json(model, hub::WeightType::float32, source, 1));
      BOOST_TEST(made["rope_scaling"] == expected, source);
      BOOST_TEST(text_of(read(made).model) == text_of(model), source);
    }
  }
}

BOOST_AUTO_TEST_CASE(rotary_embeddings_in_the_older_and_the_newer_form) {
  const json llama3 = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  const std::vector<std::pair<std::string, json>> kinds{
      {"default", json::object()},
      {"linear", {{"factor", 2.0}}},
      {"dynamic", {{"factor", 2.0}}},
      {"yarn", {{"factor", 4.0}, {"original_max_position_embeddings", 512}, {"beta_fast", 16}, {"truncate", false}}},
      {"llama3", llama3}};
  for (const auto& [kind, fields] : kinds) {
    json older = {{"rope_theta", 5000.0}, {"rope_scaling", rope_of(kind, fields)}};
    json newer = {{"rope_parameters", rope_of(kind, fields)}};
    newer["rope_parameters"]["rope_theta"] = 5000.0;
    const config::Model model = read(config_of("LlamaForCausalLM", older)).model;
    BOOST_TEST(text_of(model) == text_of(read(config_of("LlamaForCausalLM", newer)).model));
    BOOST_TEST(model.rope_theta == 5000.0);
    older["rope_scaling"]["type"] = kind;
    older["rope_scaling"].erase("rope_type");
    BOOST_TEST(text_of(model) == text_of(read(config_of("LlamaForCausalLM", older)).model));
  }
}

BOOST_AUTO_TEST_CASE(yarn_and_dynamic_take_lengths_from_the_model) {
  const json yarn = rope_of("yarn", {{"factor", 4.0}});
  const config::Model model =
      read(config_of("Qwen3ForCausalLM", {{"max_position_embeddings", 512}, {"rope_scaling", yarn}})).model;
  BOOST_TEST(model.rope_scaling.original_max_position_embeddings == 512);
  BOOST_TEST(model.rope_scaling.attention_factor == 0.1 * std::log(4.0) + 1, boost::test_tools::tolerance(1e-15));
  const json dynamic = rope_of("dynamic", {{"factor", 2.0}, {"original_max_position_embeddings", 77}});
  const config::Model other =
      read(config_of("LlamaForCausalLM", {{"max_position_embeddings", 300}, {"rope_scaling", dynamic}})).model;
  BOOST_TEST(other.rope_scaling.original_max_position_embeddings == 300);
  const json mscale = rope_of("yarn", {{"factor", 4.0}, {"mscale", 1.2}, {"mscale_all_dim", 0.7}});
  const double scale = (0.12 * std::log(4.0) + 1) / (0.07 * std::log(4.0) + 1);
  BOOST_TEST(
      read(config_of("LlamaForCausalLM", {{"rope_scaling", mscale}})).model.rope_scaling.attention_factor == scale,
      boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(what_changes_the_math_and_is_not_there_is_refused_by_name) {
  BOOST_TEST(
      mentions(refusal(json::object(), "GemmaForCausalLM"), {"architectures", "GemmaForCausalLM", "Qwen3ForCausalLM"}));
  BOOST_TEST(mentions(refusal({{"hidden_act", "gelu"}}), {"`hidden_act = \"gelu\"`", "SwiGLU"}));
  BOOST_TEST(mentions(refusal({{"attention_dropout", 0.1}}), {"attention_dropout"}));
  BOOST_TEST(mentions(refusal({{"quantization_config", {{"bits", 4}}}}), {"quantization_config"}));
  BOOST_TEST(mentions(refusal({{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor = 0.5"}));
  BOOST_TEST(mentions(refusal({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}), {"rope_parameters"}));
  BOOST_TEST(mentions(refusal({{"rope_scaling", rope_of("longrope", {})}}), {"rope_scaling", "longrope"}));
  BOOST_TEST(mentions(refusal({{"rope_scaling", rope_of("linear", {})}}), {"factor"}));
  BOOST_TEST(mentions(refusal({{"rope_parameters", {{"full_attention", json::object()}}}}), {"kinds of layers"}));
  BOOST_TEST(mentions(refusal({{"is_causal", false}}), {"is_causal"}));
  BOOST_TEST(mentions(refusal({{"layer_types", {"linear_attention"}}}), {"layer_types", "linear_attention"}));
  BOOST_TEST(mentions(refusal({{"layer_types", {"full_attention"}}}), {"layer_types", "1 items for 3 layers"}));
  BOOST_TEST(mentions(refusal({{"hidden_size", nullptr}}), {"has no hidden_size"}));
  BOOST_TEST(mentions(refusal({{"hidden_size", "64"}}), {"`hidden_size = \"64\"`", "whole number"}));
  BOOST_TEST(mentions(refusal({{"num_attention_heads", 0}}), {"num_attention_heads"}));
  BOOST_TEST(mentions(refusal({{"vocab_size", -1}}), {"vocab_size", "0 or more"}));
  BOOST_TEST(mentions(refusal({{"mlp_bias", 1}}), {"mlp_bias", "true or false"}));
  BOOST_TEST(mentions(test::data_error_of([] { static_cast<void>(hub::parse_model_config("[]", "f")); }), {"f"}));
  BOOST_TEST(
      mentions(test::data_error_of([] { static_cast<void>(hub::parse_model_config(std::string(100000, '['), "f")); }),
               {"nested too deeply"}));
}

BOOST_AUTO_TEST_CASE(fields_that_the_family_does_not_read_are_named_if_they_may_matter) {
  const json harmless = {{"use_cache", true}, {"torch_dtype", "bfloat16"},   {"temperature", 0.6},
                         {"bos_token_id", 1}, {"use_sliding_window", false}, {"logits_scale", nullptr},
                         {"qkv_bias", false}};
  BOOST_TEST(read(config_of("LlamaForCausalLM", harmless)).warnings.empty());
  const hub::ModelConfig model =
      read(config_of("MistralForCausalLM", {{"attention_bias", true}, {"logit_scale", 0.5}, {"top_p", 0.5}}));
  BOOST_TEST_REQUIRE(model.warnings.size() == 1U);
  BOOST_TEST(mentions(model.warnings[0], {"x/config.json", "MistralForCausalLM", "attention_bias, logit_scale;"}));
  const json yarn = rope_of("yarn", {{"factor", 4.0}, {"original_max_position_embeddings", 512}, {"odd", 1}});
  BOOST_TEST(read(config_of("LlamaForCausalLM", {{"rope_scaling", yarn}})).warnings.size() == 1U);
  BOOST_TEST(read(config_of("LlamaForCausalLM", {{"rope_scaling", yarn}, {"max_position_embeddings", 1024}}))
                 .warnings.size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
