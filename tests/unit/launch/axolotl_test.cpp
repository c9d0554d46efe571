// SPDX-License-Identifier: Apache-2.0
// Files of Axolotl.

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

#include "launch_fixture.hpp"
#include "sft/config/step_shares.hpp"
#include "support/config_error.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::config_of;
using test::read_text;
using test::refusal;
using test::request_of;

BOOST_AUTO_TEST_SUITE(axolotl)

BOOST_AUTO_TEST_CASE(recipe_of_axolotl) {
  const char* const text =
      "base_model: org/name\nload_in_8bit: false\nload_in_4bit: false\nstrict: false\ndatasets:\n- path: chats.jsonl\n"
      "  type: chat_template\n  ds_type: json\nval_set_size: 0.05\noutput_dir: ./out\nsequence_len: 4096\n"
      "sample_packing: true\npad_to_sequence_len: true\nadapter: lora\nlora_r: 32\nlora_alpha: 16\nlora_dropout: 0.05\n"
      "lora_target_linear: true\ngradient_accumulation_steps: 4\nmicro_batch_size: 2\nnum_epochs: 3\n"
      "optimizer: adamw_torch\nlr_scheduler: cosine\nlearning_rate: 0.0002\nbf16: auto\ntf32: false\n"
      "gradient_checkpointing: true\nlogging_steps: 1\nflash_attention: true\nwarmup_steps: 10\nevals_per_epoch: 1\n"
      "saves_per_epoch: 1\nweight_decay: 0.0\nwandb_project:\nspecial_tokens:\n";
  const launch::ForeignFile file = read_text(text);
  const launch::Request request = request_of(file);
  launch::Request shares_apart = request;
  const StepShares shares = take_step_shares(shares_apart.training);
  const Config config = parse_sources(shares_apart.training, {});
  BOOST_TEST(shares.eval_steps.value_or(0.0) == 1.0 / 3.0);
  BOOST_TEST(shares.save_steps.value_or(0.0) == 1.0 / 3.0);
  BOOST_TEST(request.train.front().name == "chats.jsonl");
  BOOST_TEST(request.preparation.at("max_length") == "4096");
  BOOST_TEST(request.preparation.at("packing") == "true");
  BOOST_TEST(request.preparation.at("eval_split") == "0.05");
  BOOST_TEST(request.preparation.at("assistant_only_loss") == "true");
  BOOST_TEST(config.train.per_device_train_batch_size == 2);
  BOOST_TEST(config.train.num_train_epochs == 3.0);
  BOOST_TEST(request.preparation.at("end_of_turn") == "eos");
  BOOST_TEST(config.lora.lora_r == 32);
  BOOST_TEST(config.lora.use_peft);
  BOOST_TEST(config.lora.lora_target_modules.front() == "all-linear");
  BOOST_TEST((config.train.precision == Precision::bf16));
  BOOST_TEST(file.notes.size() == 1U);
}

BOOST_AUTO_TEST_CASE(layers_of_adapters_by_each_name) {
  for (const char* name : {"peft_layers_to_transform", "lora_layers_to_transform", "layers_to_transform"}) {
    const std::string text =
        fmt::format("base_model: m\nadapter: lora\ndatasets: [{{path: d, type: alpaca}}]\n{}: [0]\n", name);
    BOOST_TEST(config_of(read_text(text)).lora.layers_to_transform.size() == 1U, name);
  }
}

BOOST_AUTO_TEST_CASE(two_ways_to_say_one_thing_are_refused) {
  const std::string begin = "base_model: m\ndatasets: [{path: d, type: alpaca}]\nval_set_size: 0.1\n";
  const auto says = [&](const char* lines, const char* part) {
    check_says(refusal([&] { static_cast<void>(config_of(read_text(begin + lines))); }), part);
  };
  says("saves_per_epoch: 2\nsave_steps: 10\n", "save_steps says how often, too");
  says("evals_per_epoch: 2\neval_steps: 10\n", "eval_steps says how often, too");
  says("excess_length_strategy: drop\n", "are cut there, which is truncate");
  static_cast<void>(config_of(read_text(begin + "excess_length_strategy: truncate\n")));
}

BOOST_AUTO_TEST_CASE(records_of_sharegpt_for_axolotl) {
  const std::string begin =
      "base_model: m\ndatasets:\n- path: d\n  type: chat_template\n  field_messages: conversations\n";
  const std::string mappings = "  message_property_mappings:\n    role: from\n    content: value\n";
  BOOST_TEST(!request_of(read_text(begin + mappings)).preparation.contains("rename"));  // sft-prepare knows these
  BOOST_TEST(request_of(read_text(begin)).preparation.at("rename") == "conversations=messages");
}

BOOST_AUTO_TEST_CASE(defaults_are_those_of_axolotl) {
  const launch::ForeignFile file = read_text(
      "base_model: m\nlearning_rate: 1e-4\nadapter: qlora\nload_in_4bit: true\nlora_target_linear: true\ndatasets:\n- "
      "path: d\n  type: completion\n");
  const Config config = config_of(file);
  BOOST_TEST(request_of(file).preparation.at("max_length") == "512");
  BOOST_TEST(config.train.per_device_train_batch_size == 1);
  BOOST_TEST(config.train.num_train_epochs == 1.0);
  BOOST_TEST(config.lora.lora_dropout == 0.0);
  BOOST_TEST(config.lora.use_bnb_nested_quant);
  BOOST_TEST((config.checkpoint.save_strategy == SaveStrategy::epoch));
}

BOOST_AUTO_TEST_CASE(prompts_around_alpaca) {
  const auto prompt = [](const std::string& type) {
    return request_of(read_text("base_model: m\ndatasets:\n- path: d\n  type: " + type))
        .preparation.at("prompt_template");
  };
  check_says(prompt("alpaca"), R"(paired with an input that provides further context)");
  check_says(prompt("alpaca"),
             R"('### Instruction:\n' ~ instruction ~ '\n\n### Input:\n' ~ input ~ '\n\n### Response:\n' if input)");
  check_says(prompt("alpaca:chat"), R"('USER: ' ~ instruction ~ '\nASSISTANT:')");
  const std::string own = prompt(
      "\n    field_instruction: q\n    field_output: a\n    format: \"[INST] {instruction} {input} [/INST]\"\n"
      "    no_input_format: \"[INST] {instruction} [/INST]\"\n    system_prompt: \"It's so.\"\n");
  check_says(own, R"(else 'It\'s so.' %})");
  check_says(own, R"(('[INST] ' ~ q ~ ' ' ~ input ~ ' [/INST]' if input else '[INST] ' ~ q ~ ' [/INST]'))");
}

BOOST_AUTO_TEST_CASE(tokens_that_end_turns) {
  const launch::Request request = request_of(
      read_text("base_model: m\neot_tokens: [<end_of_turn>]\nspecial_tokens:\n  pad_token: <pad>\n  eos_token: <eos>\n"
                "datasets:\n- path: d\n  type: chat_template\n  split: train[:20%]\n  train_on_eos: turn\n"));
  BOOST_TEST(request.preparation.at("end_of_turn") == "<end_of_turn>");
  BOOST_TEST(request.preparation.at("eos_token") == "<eos>");
  BOOST_TEST(request.known_pad_token == "<pad>");
  BOOST_TEST(request.train.front().split == "train");
  BOOST_TEST(request.train.front().slice == ":20%");
}

BOOST_AUTO_TEST_CASE(layers_by_regular_expressions) {
  const char* const begin = "base_model: m\nadapter: lora\nlora_target_modules: ";
  const auto modules = [&](const std::string& value) {
    return config_of(read_text(begin + value)).lora.lora_target_modules;
  };
  const std::vector<std::string> of_attention{"q_proj", "k_proj", "v_proj", "o_proj"};
  BOOST_TEST(modules(R"('model.language_model.layers.[\d]+.self_attn.(q|k|v|o)_proj')") == of_attention);
  BOOST_TEST(modules("[q_proj, k_proj, v_proj, self_attn.o_proj, in_proj]") == of_attention);
}

BOOST_AUTO_TEST_CASE(what_two_names_say) {
  const Config config = config_of(
      read_text("base_model: m\nfsdp: [full_shard, auto_wrap]\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
                "  fsdp_activation_checkpointing: true\ngradient_checkpointing: true\ncontext_parallel_size: 2\n"));
  BOOST_TEST(config.parallel.zero_stage == 3);
  BOOST_TEST(config.parallel.sp_size == 2);
  BOOST_TEST((config.parallel.sp_method == SpMethod::ring));
}

BOOST_AUTO_TEST_CASE(all_refusals_of_axolotl_at_once) {
  const char* const text =
      "base_model: m\nrl: dpo\nadapter: ia3\nload_in_8bit: true\nqat:\n  weight_dtype: int8\nunfrozen_parameters: "
      "[lm_head]\nplugins:\n- axolotl.integrations.liger.LigerPlugin\n- axolotl.integrations.kd.KDPlugin\n"
      "datasets:\n- path: d\n  type: gpteacher\n  shards: 4\n";
  const std::string said = refusal([&] { static_cast<void>(config_of(read_text(text))); });
  check_says(said, "8 settings cannot be used");
  for (const char* part : {"rl: dpo", "adapter: ia3", "load_in_8bit", "qat: ", "unfrozen_parameters", "KDPlugin",
                           "datasets[].type: gpteacher", "datasets[].shards: 4"}) {
    check_says(said, part);
  }
}

BOOST_AUTO_TEST_CASE(experts_in_4_bits) {
  const launch::ForeignFile file =
      read_text("base_model: m\nadapter: qlora\nload_in_4bit: true\nquantize_moe_experts: true\n");
  BOOST_TEST(file.refused.empty());
  BOOST_TEST(config_of(file).lora.quantize_moe_experts);
}

BOOST_AUTO_TEST_CASE(what_bitsandbytes_is_told) {
  const std::string begin = "base_model: m\nadapter: qlora\nload_in_4bit: true\nbnb_config_kwargs: ";
  const Config config = config_of(read_text(
      begin + "{bnb_4bit_use_double_quant: false, bnb_4bit_quant_type: fp4, bnb_4bit_quant_storage: uint8}\n"));
  BOOST_TEST(!config.lora.use_bnb_nested_quant);
  BOOST_TEST((config.lora.bnb_4bit_quant_type == FourBitType::fp4));
  check_says(refusal([&] { static_cast<void>(config_of(read_text(begin + "{llm_int8_threshold: 5}\n"))); }),
             "`llm_int8_threshold: 5`");
}

BOOST_AUTO_TEST_CASE(templates_of_files_and_texts) {
  const std::string begin = "base_model: m\nchat_template: jinja\n";
  const auto preparation = [&](const std::string& more) { return request_of(read_text(begin + more)).preparation; };
  BOOST_TEST(preparation("chat_template_jinja: t.jinja\n").at("chat_template_path") == "t.jinja");
  BOOST_TEST(preparation("chat_template_jinja: '{{ messages }}'\n").at("chat_template") == "{{ messages }}");
  BOOST_TEST(read_text(begin).refused.size() == 1U);
}

BOOST_AUTO_TEST_CASE(layers_that_only_other_models_have) {
  const std::string begin = "base_model: m\nadapter: lora\nlora_target_modules: ";
  const launch::ForeignFile file =
      read_text(begin + "[q_proj, kv_b_proj, linear_attn.in_proj_a, shared_expert.up_proj, v_proj]");
  const std::vector<std::string> kept{"q_proj", "v_proj"};
  BOOST_TEST(config_of(file).lora.lora_target_modules == kept);
  BOOST_TEST_REQUIRE(file.notes.size() == 1U);
  check_says(file.notes.front(), "no layer here is called kv_b_proj, linear_attn.in_proj_a, shared_expert.up_proj");
  const std::vector<std::string> left{"kv_b_proj"};  // for sft to refuse
  BOOST_TEST(config_of(read_text(begin + "[kv_b_proj]")).lora.lora_target_modules == left);
}

BOOST_AUTO_TEST_CASE(data_sets_that_differ) {
  const launch::ForeignFile file =
      read_text("base_model: m\ndatasets:\n- path: a\n  type: alpaca\n- path: b\n  type: chat_template\n");
  BOOST_TEST_REQUIRE(file.refused_data.size() == 1U);
  check_says(file.refused_data.front(), "are read in two ways");
}

BOOST_AUTO_TEST_SUITE_END()
