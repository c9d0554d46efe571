// SPDX-License-Identifier: Apache-2.0
// Settings of TRL, transformers and Accelerate that say several things at once, or leave one to a default.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>

#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "support/config_error.hpp"
#include "support/options_of.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::refusal;

namespace {

Config parse_words(const std::vector<std::string>& words) { return parse("", test::options_of(words), "run.ini"); }

std::vector<std::string> notes_of(const std::vector<std::string>& words) {
  std::vector<PlacedOption> placed;
  for (const Option& option : test::options_of(words)) placed.push_back({option, "on the command line"});
  return notes_on(placed);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(composed)

BOOST_AUTO_TEST_CASE(words_of_fsdp_come_in_any_order) {
  for (const char* words : {"offload shard_grad_op auto_wrap", "auto_wrap,offload,shard_grad_op",
                            R"(["shard_grad_op", "offload"])", "SHARD_GRAD_OP OFFLOAD"}) {
    const Config config = parse_words({"--fsdp", words});
    BOOST_TEST(config.parallel.zero_stage == 2, words);
    BOOST_TEST((config.train.offload_parameters == Offload::host), words);
  }
  BOOST_TEST(parse_words({"--fsdp"}).parallel.zero_stage == 3);
  check_says(refusal([] { (void)parse_words({"--fsdp", "full_shard tensor_wrap"}); }), "`fsdp = tensor_wrap`");
  check_says(refusal([] { (void)parse_words({"--fsdp", "full_shard no_shard"}); }), "given twice");
}

BOOST_AUTO_TEST_CASE(entries_of_an_object_mean_what_they_mean_alone) {
  const Config config =
      parse_words({"--fsdp_config", R"({"activation_checkpointing": true, "version": 2, "xla": false})",
                   "--parallelism_config", R"({"cp_size": 2, "tp_size": 4})"});
  BOOST_TEST((config.train.activation_checkpointing == ActivationCheckpointing::full));
  BOOST_TEST(config.parallel.sp_size == 2);
  BOOST_TEST(config.parallel.tp_size == 4);
  BOOST_TEST((parse_words({"--model_init_kwargs", "{'dtype': 'bfloat16', 'use_kernels': True}"}).train.precision ==
              Precision::pure_bf16));
  BOOST_TEST(parse_words({"--activation_checkpointing_kwargs", R"({"offload": true})"}).train.activation_offload);
  const char* const text = "[train]\ngradient_checkpointing_kwargs = {\"use_reentrant\": false}\n";
  BOOST_TEST(to_ini(parse(text, {}, "run.ini")) == to_ini(Config{}));
}

BOOST_AUTO_TEST_CASE(a_way_of_distributing_is_a_stage_unless_another_name_says_it) {
  const auto stage = [](const std::vector<std::string>& words) { return parse_words(words).parallel.zero_stage; };
  BOOST_TEST(stage({"--multi_gpu"}) == 0);
  BOOST_TEST(stage({"--use_fsdp", "--fsdp_version", "2"}) == 3);
  BOOST_TEST(stage({"--use_deepspeed"}) == 2);
  BOOST_TEST(stage({"--use_deepspeed", "--zero_stage", "1"}) == 1);
  BOOST_TEST(stage({"--use_fsdp", "--fsdp_sharding_strategy", "SHARD_GRAD_OP"}) == 2);
  BOOST_TEST(stage({"--multi_gpu", "false"}) == 3);
  BOOST_TEST(parse("zero_stage = 1\n", test::options_of({"--multi_gpu"}), "run.ini").parallel.zero_stage == 0);
}

BOOST_AUTO_TEST_CASE(fp8_of_mixed_precision_is_bf16_with_products_in_8_bits) {
  const Config config = parse_words({"--mixed_precision", "fp8", "--fp8_backend", "TORCHAO", "--fp8_format", "hybrid"});
  BOOST_TEST((config.train.precision == Precision::bf16));
  BOOST_TEST((config.train.fp8 == Fp8::tensorwise));
  BOOST_TEST((parse_words({"--mixed_precision", "fp8", "--dtype", "bfloat16"}).train.precision == Precision::bf16));
}

BOOST_AUTO_TEST_CASE(an_object_that_cannot_be_read_is_refused_by_its_name) {
  check_says(refusal([] { (void)parse_words({"--fsdp_config", "{version: 2"}); }), "`fsdp_config = {version: 2`");
  check_says(refusal([] { (void)parse_words({"--gradient_checkpointing_kwargs", "yes"}); }), "it is a JSON object");
  check_says(refusal([] {
               (void)parse_words({"--model_init_kwargs", R"({"device_map": "sequential"})"});
             }),
             "`device_map = sequential` in model_init_kwargs on the command line");
  check_says(refusal([] {
               (void)parse_words({"--model_init_kwargs", R"({"foo": 1})"});
             }),
             "unknown key `foo` in model_init_kwargs on the command line");
}

struct Given {
  std::vector<std::string> words;
  const char* says;
};
std::ostream& operator<<(std::ostream& out, const Given& given) { return out << given.words.front(); }

const Given refused[] = {
    {{"--gradient_checkpointing_kwargs", R"({"selective": true})"}, "`gradient_checkpointing_kwargs.selective = true`"},
    {{"--activation_checkpointing_kwargs", R"({"every_n_layers": 2})"}, "all blocks are recomputed alike"},
    {{"--gradient_checkpointing_kwargs", R"({"context_fn": "f"})"}, "it belongs to torch.utils.checkpoint"},
    {{"--tf32", "true", "--bf16", "false"}, "`tf32 = true` on the command line with train.precision = fp32"},
    {{"--bf16_full_eval", "--precision", "fp32"}, "evaluation is in the precision of training"},
    {{"--tf32=maybe"}, "sft does not take `tf32 = maybe`"},
    {{"--fp8_format", "E4M3"}, "which is HYBRID"},
    {{"--trust_remote_code=perhaps"}, "sft does not take `trust_remote_code = perhaps`"},
    {{"--include_num_input_tokens_seen", "some"}, "write all, non_padding or no"},
    {{"--bnb_4bit_quant_storage", "int8"}, "write uint8, float16, bfloat16 or float32"},
    {{"--debug", "underflow_overflow"}, "train.nan_policy"},
    {{"--train_sampling_strategy", "batch_rebalance"}, "--packing_strategy balanced"},
    {{"--report_to", "clearml"}, "nothing writes for clearml"},
    {{"--adjust_lr_fn", "spectral_unclamped"}, "write original"},
    {{"--eval_delay", "-1"}, "train.eval_delay"},
};

BOOST_DATA_TEST_CASE(what_would_change_a_number_is_refused, boost::unit_test::data::make(refused), given) {
  check_says(refusal([&] { (void)validate(parse_words(given.words), 1); }), given.says);
}

BOOST_AUTO_TEST_CASE(every_optimizer_of_transformers_is_obeyed_or_refused_with_another) {
  // OptimizerNames of transformers 5.24
  for (const char* name : {"adamw_torch",
                           "adamw_torch_fused",
                           "adamw_torch_xla",
                           "adamw_torch_npu_fused",
                           "adafactor",
                           "adamw_anyprecision",
                           "adamw_torch_4bit",
                           "adamw_torch_8bit",
                           "ademamix",
                           "sgd",
                           "adagrad",
                           "adamw_bnb_8bit",
                           "adamw_8bit",
                           "ademamix_8bit",
                           "lion_8bit",
                           "lion_32bit",
                           "paged_adamw_32bit",
                           "paged_adamw_8bit",
                           "paged_ademamix_32bit",
                           "paged_ademamix_8bit",
                           "paged_lion_32bit",
                           "paged_lion_8bit",
                           "rmsprop",
                           "rmsprop_bnb",
                           "rmsprop_bnb_8bit",
                           "rmsprop_bnb_32bit",
                           "galore_adamw",
                           "galore_adamw_8bit",
                           "galore_adafactor",
                           "galore_adamw_layerwise",
                           "galore_adamw_8bit_layerwise",
                           "galore_adafactor_layerwise",
                           "lomo",
                           "adalomo",
                           "grokadamw",
                           "schedule_free_radam",
                           "schedule_free_adamw",
                           "schedule_free_sgd",
                           "apollo_adamw",
                           "apollo_adamw_layerwise",
                           "stable_adamw"}) {
    try {
      (void)parse_words({"--optim", name});
    } catch (const Error& error) {
      const std::string said = error.what();
      BOOST_TEST((said.find("write ") != said.npos || said.find("(expected adamw_8bit") != said.npos), said);
      BOOST_TEST(std::string(error.what()).find("expected one of") == std::string::npos, name);
    }
  }
  check_says(refusal([] { (void)parse_words({"--optim", "paged_lion_8bit"}); }), "write lion, or adamw_8bit");
}

BOOST_AUTO_TEST_CASE(notes_say_what_changes_nothing_and_why) {
  const std::vector<std::string> notes = notes_of({"--attn_implementation", "sdpa", "--use_liger_kernel", "--tf32",
                                                   "true", "--fp16", "false", "--max_steps", "3", "--multi_gpu"});
  BOOST_TEST(notes.size() == 2U);
  check_says(notes.front(), "`attn_implementation`, `use_liger_kernel` without effect: sft has kernels of its own");
  check_says(notes.back(), "`tf32` without effect: products of linear layers are in bf16");
}

BOOST_AUTO_TEST_SUITE_END()
