// SPDX-License-Identifier: Apache-2.0
#include "sft/config/parse.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <sstream>

#include "sft/config/rope_scaling.hpp"
#include "sft/config/values.hpp"
#include "support/config_error.hpp"
#include "support/options_of.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::refusal;

namespace {

Config parse_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse(text, test::options_of(overrides), "test.ini");
}

std::string rope(const std::string& json) { return "[model]\nrope_scaling = " + json + "\n"; }

const char* const llama3 = R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, )"
                           R"("original_max_position_embeddings": 8192})";

}  // namespace

BOOST_AUTO_TEST_SUITE(parse)

BOOST_AUTO_TEST_CASE(values_reach_their_fields) {
  const Config config = parse_text(
      "# a comment\n"
      "[model]\nhidden_size = 64   # another\nrope_theta = 1e6\ntie_word_embeddings = true\n"
      "[data]\ntrain_files = a.h5, b-*.h5\tc.h5\nshuffle = false\n"
      "[train]\nmax_steps = -1\nprecision = fp32\n"
      "[optimizer]\nlr_scheduler_type = cosine\nlearning_rate = 0.01\n"
      "[device]\nbackend = cpu\n");
  BOOST_TEST(config.model.hidden_size == 64);
  BOOST_TEST(config.model.rope_theta == 1e6);
  BOOST_TEST(config.model.tie_word_embeddings);
  const std::vector<std::string> files{"a.h5", "b-*.h5", "c.h5"};
  BOOST_TEST(config.data.train_files == files, boost::test_tools::per_element());
  BOOST_TEST(!config.data.shuffle);
  BOOST_TEST((config.train.precision == Precision::fp32));
  BOOST_TEST((config.optimizer.lr_scheduler_type == Scheduler::cosine));
  BOOST_TEST(config.optimizer.learning_rate == 0.01);
  BOOST_TEST((config.device.backend == BackendChoice::cpu));
  BOOST_TEST(config.parallel.dp_shard_size == 0);
}

BOOST_AUTO_TEST_CASE(an_empty_text_gives_the_defaults) { BOOST_TEST(to_ini(parse_text("")) == to_ini(Config{})); }

BOOST_AUTO_TEST_CASE(overrides_win) {
  const Config config =
      parse_text("[parallel]\ntp_size = 2\n[train]\nmax_steps = 5\n",
                 {"--parallel.tp_size", "4", "--train.max_steps=-1", "--parallel.dp_shard_size=auto"});
  BOOST_TEST(config.parallel.tp_size == 4);
  BOOST_TEST(config.train.max_steps == -1);
}

BOOST_AUTO_TEST_CASE(a_negative_number_is_a_value) {
  BOOST_TEST(parse_text("", {"--train.max_steps", "-1"}).train.max_steps == -1);
}

BOOST_AUTO_TEST_CASE(ini_text_holds_every_bit) {
  Config config;
  config.model.rope_theta = 1234567.891234567;
  config.model.rms_norm_eps = 1e-5;
  config.model.initializer_range = 0.1 + 0.2;
  config.model.init_seed = 18446744073709551615u;
  config.model.rope_scaling = {RopeType::llama3, 8.1, 1.1, 4.3, 4096};
  config.data.train_files = {"a/*.h5", "b.h5"};
  config.parallel.dp_shard_size = 3;
  config.train.output_dir = "output/a folder with spaces";
  config.train.precision = Precision::fp32;
  config.optimizer.learning_rate = 1.0 / 3.0;
  config.optimizer.adam_epsilon = 5e-324;
  config.optimizer.lr_scheduler_type = Scheduler::constant_with_warmup;
  config.device.backend = BackendChoice::cuda;
  config.device.comm = CommChoice::host;
  config.device.attention = AttentionChoice::cudnn;
  config.device.cuda_graphs = false;
  config.device.matmul_autotune = true;
  config.device.comm_timeout_s = 0.25;
  config.device.tp_max_ctas = 8;
  const Config again = parse_text(to_ini(config));
  BOOST_TEST(to_ini(again) == to_ini(config));
  BOOST_TEST(again.model.rope_theta == config.model.rope_theta);
  BOOST_TEST(again.model.initializer_range == config.model.initializer_range);
  BOOST_TEST(again.model.init_seed == config.model.init_seed);
  BOOST_TEST(again.model.rope_scaling.factor == 8.1);
  BOOST_TEST(again.model.rope_scaling.original_max_position_embeddings == 4096);
  BOOST_TEST(again.optimizer.learning_rate == config.optimizer.learning_rate);
  BOOST_TEST(again.optimizer.adam_epsilon == config.optimizer.adam_epsilon);
  BOOST_TEST(again.train.output_dir == config.train.output_dir);
}

BOOST_AUTO_TEST_CASE(what_a_schedule_lets_one_choose_is_a_json_object) {
  const auto optimizer = [](const std::string& kwargs) {
    const Config config = parse_text("[optimizer]\nlr_scheduler_kwargs = " + kwargs + "\n");
    BOOST_TEST(to_ini(parse_text(to_ini(config))) == to_ini(config));
    return config.optimizer;
  };
  for (const char* nothing : {"", "none", "null", "{}", "{\"timescale\": null}"}) {
    BOOST_TEST(write(optimizer(nothing).lr_scheduler_kwargs) == "");
  }
  const SchedulerKwargs one =
      optimizer(R"({"num_cycles": "2", "lr_end": 0.30000000000000004, "min_lr": "0.5", "patience": 1e1})")
          .lr_scheduler_kwargs;
  BOOST_TEST(one.num_cycles.value() == 2.0);
  BOOST_TEST(one.lr_end.value() == 0.1 + 0.2);
  BOOST_TEST(one.min_lr.value() == 0.5);
  BOOST_TEST(one.patience.value() == 10);
  BOOST_TEST(!one.power.has_value());
  const std::string all =
      R"({"num_cycles":0.5,"lr_end":1e-07,"power":2.0,"timescale":100.0,"min_lr":1e-06,"min_lr_rate":0.1,)"
      R"("warmup_lr_rate":0.2,"num_stable_steps":5,"num_decay_steps":3,"warmup_type":"linear","decay_type":"1-sqrt",)"
      R"("min_lr_ratio":0.3,"mode":"max","factor":0.5,"patience":4,"threshold":0.001,"threshold_mode":"abs",)"
      R"("cooldown":2,"eps":1e-09})";
  BOOST_TEST(write(optimizer(all).lr_scheduler_kwargs) == all);
  const Config config = parse_text("", {"--lr_scheduler_kwargs", R"({"num_cycles": 2})"});
  BOOST_TEST(config.optimizer.lr_scheduler_kwargs.num_cycles.value() == 2.0);
}

BOOST_AUTO_TEST_CASE(warm_up_is_a_number_of_steps_or_a_share_of_them) {
  BOOST_TEST(parse_text("warmup_steps = 1e3\n").optimizer.warmup_steps == 1000);
  for (const char* steps : {"2048", "2_048", "+2048", "2048.0", "2.048e3", "0x800", "0o4000", "0b1000_0000_0000"}) {
    BOOST_TEST(parse_text(std::string("max_steps = ") + steps + "\n").train.max_steps == 2048, steps);
  }
  BOOST_TEST(parse_text("learning_rate = +1_0.5\n").optimizer.learning_rate == 10.5);
  BOOST_TEST(parse_text("warmup_steps = 0.1\n").optimizer.warmup_steps == 0.1);
  BOOST_TEST(parse_text("warmup_ratio = 0.1\n").optimizer.warmup_ratio == 0.1);
  BOOST_TEST(parse_text("warmup_ratio = none\n").optimizer.warmup_ratio == 0);
}

BOOST_AUTO_TEST_CASE(resharding_is_a_truth_or_a_number_of_ranks) {
  const auto parallel = [](const std::string& text) {
    const Config config = parse_text("[parallel]\nreshard_after_forward = " + text + "\n");
    BOOST_TEST(to_ini(parse_text(to_ini(config))) == to_ini(config));
    return config.parallel;
  };
  BOOST_TEST((parallel("true").reshard_after_forward == Reshard::always));
  BOOST_TEST((parallel("False").reshard_after_forward == Reshard::never));
  BOOST_TEST(parallel("false").reshard_size == 1);
  BOOST_TEST((parallel("4").reshard_after_forward == Reshard::to_groups));
  BOOST_TEST(parallel("4").reshard_size == 4);
  for (const char* wrong : {"0", "1", "-2", "2.5", "node"}) {
    BOOST_CHECK_EXCEPTION(parallel(wrong), Error, [](const Error& error) {
      return std::string(error.what()).find("true, false or a number of ranks from 2") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(units_are_blocks_or_parts_of_one) {
  const auto blocks = [](const std::string& text) {
    const Config config = parse_text("[parallel]\nfsdp_units = " + text + "\n");
    BOOST_TEST(to_ini(parse_text(to_ini(config))) == to_ini(config));
    return config.parallel.blocks_per_unit;
  };
  BOOST_TEST(blocks("block") == 1);
  BOOST_TEST(blocks("parts") == 0);
  BOOST_TEST(blocks("6") == 6);
  for (const char* wrong : {"0", "-1", "layer"}) {
    BOOST_CHECK_EXCEPTION(blocks(wrong), Error, [](const Error& error) {
      return std::string(error.what()).find("block, parts or a number of blocks from 1") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(adapters_begin_as_peft_names_it) {
  const auto read = [](const std::string& text) {
    return parse_text("[lora]\ninit_lora_weights = " + text + "\n").lora.init_lora_weights;
  };
  const std::pair<const char*, LoraInit> names[] = {
      {"true", LoraInit::zero_b}, {"no", LoraInit::linear},   {"gaussian", LoraInit::gaussian},
      {"pissa", LoraInit::pissa}, {"olora", LoraInit::olora}, {"pissa_niter_16", LoraInit::pissa}};
  for (const auto& [text, kind] : names) BOOST_TEST((read(text).kind == kind), text);
  BOOST_TEST(!read("pissa").iterations);
  BOOST_TEST((read("pissa_niter_16").iterations == 16));
  BOOST_TEST((read("pissa_niter_0").iterations == 0));
  BOOST_TEST(!read("true").splits_weights());
  BOOST_TEST(read("olora").splits_weights());
  Config config;
  config.lora.init_lora_weights = {LoraInit::pissa, 16};
  BOOST_TEST(parse_text(to_ini(config)).lora.init_lora_weights.iterations.value_or(0) == 16);
  for (const char* wrong : {"pissa_niter_", "pissa_niter_x", "pissa_niter_-1"}) {
    check_says(refusal([&] { (void)read(wrong); }), "a whole number of iterations, as in pissa_niter_16");
  }
  check_says(refusal([&] { (void)read("eva"); }), "one of true | false | gaussian | pissa | olora");
}

BOOST_AUTO_TEST_CASE(evaluation_comes_as_often_as_lines_unless_said_otherwise) {
  const auto interval = [](const std::string& text) { return parse_text("[train]\n" + text).train.eval_interval(); };
  BOOST_TEST(interval("logging_steps = 7\n") == 7);
  BOOST_TEST(interval("logging_steps = 7\neval_steps = none\n") == 7);
  BOOST_TEST(interval("logging_steps = 7\neval_steps =\n") == 7);
  BOOST_TEST(interval("logging_steps = 7\neval_steps = 20\n") == 20);
  BOOST_TEST(interval("eval_steps = 0\n") == 0);
  BOOST_TEST(interval("eval_steps = no\n") == 0);
  const Config config = parse_text("[data]\neval_files = a.h5 b-*.h5\n[train]\neval_on_start = yes\neval_steps = 20\n");
  const std::vector<std::string> files{"a.h5", "b-*.h5"};
  BOOST_TEST(config.data.eval_files == files, boost::test_tools::per_element());
  BOOST_TEST(config.train.eval_on_start);
  BOOST_TEST(to_ini(parse_text(to_ini(config))) == to_ini(config));
  BOOST_TEST(parse_text("", {"--eval_files", "none"}).data.eval_files.empty());
}

BOOST_AUTO_TEST_CASE(what_long_rows_ask_for_is_read) {
  const Train none = parse_text("").train;
  BOOST_TEST(!none.attention_head_groups.has_value());
  BOOST_CHECK(none.activation_offload_to == ActivationPlace::automatic);
  const Train some = parse_text("[train]\nattention_head_groups = 4\nactivation_offload_to = nvme\n").train;
  BOOST_TEST(some.attention_head_groups.value() == 4);
  BOOST_CHECK(some.activation_offload_to == ActivationPlace::nvme);
  BOOST_TEST(!parse_text("[train]\nattention_head_groups = auto\n").train.attention_head_groups.has_value());
}

BOOST_AUTO_TEST_CASE(strategies_and_metrics_are_written_as_in_transformers) {
  const auto train = [](const std::string& text) {
    const Config config = parse_text("[train]\n" + text);
    BOOST_TEST(to_ini(parse_text(to_ini(config))) == to_ini(config));
    return config.train;
  };
  BOOST_TEST((train("").eval_strategy == EvalStrategy::steps));
  BOOST_TEST((train("eval_strategy = no\n").eval_strategy == EvalStrategy::no));
  BOOST_TEST((train("eval_strategy = epoch\n").eval_strategy == EvalStrategy::epoch));
  BOOST_TEST((train("evaluation_strategy = epoch\n").eval_strategy == EvalStrategy::epoch));
  BOOST_TEST(!train("metric_for_best_model = none\n").metric_for_best_model);
  BOOST_TEST((train("metric_for_best_model = loss\n").metric_for_best_model == EvalMetric::loss));
  BOOST_TEST((train("metric_for_best_model = eval_entropy\n").metric_for_best_model == EvalMetric::entropy));
  BOOST_TEST(!train("greater_is_better = none\n").greater_is_better);
  BOOST_TEST((train("greater_is_better = false\n").greater_is_better == false));
  BOOST_TEST((train("greater_is_better = no\n").greater_is_better == false));
  BOOST_TEST((train("greater_is_better = yes\n").greater_is_better == true));
  BOOST_TEST(train("early_stopping_patience = none\n").early_stopping_patience == 0);
  BOOST_TEST(train("loss_watchdog_threshold = none\n").loss_watchdog_threshold == 0.0);
  BOOST_TEST(train("loss_watchdog_threshold = 5.5\n").loss_watchdog_threshold == 5.5);
  BOOST_TEST((train("nan_policy = skip\n").nan_policy == NanPolicy::skip));
  BOOST_TEST((parse_text("", {"--save_strategy", "best"}).checkpoint.save_strategy == SaveStrategy::best));
  BOOST_TEST(parse_text("", {"--save_only_model"}).checkpoint.save_only_model);
  BOOST_TEST(parse_text("", {"--logging_first_step"}).train.logging_first_step);
}

BOOST_AUTO_TEST_CASE(steps_to_profile_are_none_one_or_a_range) {
  const auto steps = [](const std::string& text) {
    const Config config = parse_text("[train]\nprofile_steps = " + text + "\n");
    BOOST_TEST(to_ini(parse_text(to_ini(config))) == to_ini(config));
    return config.train.profile_steps;
  };
  BOOST_TEST(parse_text("").train.profile_steps.is_empty());
  for (const char* none : {"none", "", "no"}) BOOST_TEST(steps(none).is_empty());
  const StepRange one = steps("3"), several = steps("3-5");
  BOOST_TEST(!one.contains(2));
  BOOST_TEST(one.contains(3));
  BOOST_TEST(!one.contains(4));
  BOOST_TEST(!several.contains(2));
  BOOST_TEST(several.contains(3));
  BOOST_TEST(several.contains(5));
  BOOST_TEST(!several.contains(6));
  BOOST_TEST(parse_text("", {"--train.profile_steps", "2-4"}).train.profile_steps.last == 4);
}

BOOST_AUTO_TEST_CASE(a_byte_order_mark_is_no_part_of_the_text) {
  BOOST_TEST(parse_text("\xEF\xBB\xBF[parallel]\ntp_size = 2\n").parallel.tp_size == 2);
}

BOOST_AUTO_TEST_CASE(rope_scaling_is_the_object_of_config_json) {
  const RopeScaling scaling = parse_text(rope(llama3)).model.rope_scaling;
  BOOST_TEST((scaling.rope_type == RopeType::llama3));
  BOOST_TEST(scaling.factor == 8.0);
  BOOST_TEST(scaling.low_freq_factor == 1.0);
  BOOST_TEST(scaling.high_freq_factor == 4.0);
  BOOST_TEST(scaling.original_max_position_embeddings == 8192);
  const RopeScaling linear = parse_text(rope(R"({"type": "linear", "factor": 4})")).model.rope_scaling;
  BOOST_TEST((linear.rope_type == RopeType::linear));
  BOOST_TEST(linear.factor == 4.0);
  const RopeScaling yarn =
      parse_text(rope(R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "beta_fast": 20})"))
          .model.rope_scaling;
  BOOST_TEST((yarn.rope_type == RopeType::yarn));
  BOOST_TEST(yarn.attention_factor == 0.1 * std::log(4.0) + 1, boost::test_tools::tolerance(1e-15));
  BOOST_TEST((yarn.beta_fast == 20.0 && yarn.beta_slow == 1.0 && yarn.truncate));
  BOOST_TEST(to_json(parse_rope_scaling(to_json(yarn))) == to_json(yarn));
  const RopeScaling longrope =
      parse_text(rope(R"({"rope_type": "longrope", "factor": 4, "original_max_position_embeddings": 64,)"
                      R"( "short_factor": [1, 1.5], "long_factor": [2, 3]})"))
          .model.rope_scaling;
  BOOST_TEST((longrope.rope_type == RopeType::longrope));
  BOOST_TEST(longrope.attention_factor == std::sqrt(1 + std::log(4.0) / std::log(64.0)),
             boost::test_tools::tolerance(1e-15));
  BOOST_TEST((longrope.short_factor == std::vector{1.0, 1.5} && longrope.long_factor == std::vector{2.0, 3.0}));
  BOOST_TEST(to_json(parse_rope_scaling(to_json(longrope))) == to_json(longrope));
  for (const char* none : {"", "null", "none", R"({"rope_type": "default"})"}) {
    BOOST_TEST((parse_text(rope(none)).model.rope_scaling.rope_type == RopeType::plain));
  }
}

struct Refused {
  const char* text;
  const char* says;
};

std::ostream& operator<<(std::ostream& out, const Refused& refused) { return out << refused.says; }

const Refused refused_texts[] = {
    {"[parallel]\ntp_sise = 2\n", "unknown key `parallel.tp_sise` in test.ini:2 ([parallel] has no such key): did you"},
    {"[parallel]\ntp_sise = 2\n", "did you mean `tp_size`?"},
    {"[train]\ntp_sise = 2\n", "did you mean `tp_size`?"},
    {"[paralel]\n", "unknown section [paralel] in test.ini:1"},
    {"[paralel]\n", "did you mean [parallel]?"},
    {"\n# x\n[loro]\n", "unknown section [loro] in test.ini:3 (the sections are [model], [lora], [data], [parallel]"},
    {"[train]\nfolder = x\n", "no such key"},
    {"tp_sise = 2\n", "did you mean `tp_size`?"},
    {"[train]\nvelocity = 2\n", "([train] has no such key): --help lists every key"},
    {"seed = 2\n",
     "`seed` in test.ini:1 is ambiguous (several sections have this key): write `data.seed` or `train.seed`"},
    {"[train]\nmax_steps = 2\nmax_steps = 3\n", "`train.max_steps` is given twice, the second time in test.ini:3"},
    {"[train]\nmax_steps = 2\n[data]\n[train]\nmax_steps = 3\n", "given twice, the second time in test.ini:5"},
    {"max_steps = 2\n[train]\nmax_steps = 3\n",
     "`train.max_steps` in test.ini:3 and `max_steps` before it set the same"},
    {"[train]\nprecision = pure_bf16\nbf16 = true\n", "both mean train.precision"},
    {"[parallel]\ntp_size = two\n", "`parallel.tp_size = two` in test.ini:2 is not valid (expected a whole number)"},
    {"[parallel]\ntp_size = 2.5\n", "expected a whole number"},
    {"[parallel]\ntp_size = 2_\n", "expected a whole number"},
    {"[parallel]\ntp_size = 0x\n", "expected a whole number"},
    {"[train]\nmax_steps = 1.5e0\n", "expected a whole number"},
    {"[train]\nmax_steps = 1e30\n", "expected a whole number"},
    {"[parallel]\ntp_size = 1e10\n", "expected a whole number"},
    {"[data]\nseed = -1e2\n", "expected a whole number of 0 or more"},
    {"[parallel]\ntp_size = 99999999999\n", "expected a whole number, of at most 32 bits"},
    {"[train]\nmax_steps = 99999999999999999999\n", "expected a whole number, of at most 64 bits"},
    {"m\x01x\n", "line `m\\x01x` of test.ini:1 cannot be read"},
    {"[parallel]\ntp_size =\n", "expected a whole number"},
    {"[parallel]\ndp_shard_size = all\n", "expected a whole number from 1 or auto"},
    {"[parallel]\ndp_shard_size = 0\n", "expected a whole number from 1 or auto"},
    {"[data]\nshuffle = maybe\n", "expected true or false"},
    {"[data]\nseed = -1\n", "expected a whole number of 0 or more"},
    {"[train]\nprecision = fp16\n", "expected one of fp32 | bf16"},
    {"[optimizer]\nlr_scheduler_type = exponential\n",
     "expected one of linear | cosine | cosine_with_restarts | polynomial | constant | constant_with_warmup | "
     "inverse_sqrt | reduce_lr_on_plateau | cosine_with_min_lr | cosine_warmup_with_min_lr | warmup_stable_decay)"},
    {"[optimizer]\nlr_scheduler_type = greedy\n", "sft has none that raises the rate again, as greedy does"},
    {"[optimizer]\nlr_scheduler_kwargs = num_cycles\n", "expected a JSON object on one line, such as"},
    {"[optimizer]\nlr_scheduler_kwargs = {'num_cycles': 2}\n", "expected a JSON object on one line, such as"},
    {"[optimizer]\nlr_scheduler_kwargs = [2]\n", "expected a JSON object on one line, such as"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"num_cycle\": 2}\n",
     "expected no `num_cycle`, which no schedule has; did you mean `num_cycles`?"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"last_epoch\": -1}\n", "expected no `last_epoch`, which no schedule has)"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"num_cycles\": true}\n", "expected a number of 0 or more as `num_cycles`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"num_cycles\": \"two\"}\n", "a number of 0 or more as `num_cycles`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"num_cycles\": \"1.2.3\"}\n", "a number of 0 or more as `num_cycles`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"min_lr\": [0.1, 0.2]}\n", "a number of 0 or more as `min_lr`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"lr_end\": -1e-7}\n", "a number of 0 or more as `lr_end`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"timescale\": 0}\n", "a number above 0 as `timescale`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"factor\": 1}\n", "a number below 1 as `factor`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"patience\": 2.5}\n", "a whole number of 0 or more as `patience`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"num_decay_steps\": -3}\n",
     "a whole number of 0 or more as `num_decay_steps`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"num_decay_steps\": 1e30}\n",
     "a whole number of 0 or more as `num_decay_steps`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"decay_type\": \"sqrt\"}\n",
     "expected \"linear\" | \"cosine\" | \"1-sqrt\" as `decay_type`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"mode\": 1}\n", "expected \"min\" | \"max\" as `mode`"},
    {"[optimizer]\nlr_scheduler_kwargs = {\"threshold_mode\": \"REL\"}\n",
     "expected \"rel\" | \"abs\" as `threshold_mode`"},
    {"[optimizer]\nwarmup_steps = few\n", "expected a number"},
    {"[optimizer]\nwarmup_ratio = some\n", "expected a number"},
    {"[optimizer]\nlearning_rate = fast\n", "expected a number"},
    {"[optimizer]\nlearning_rate = nan\n", "expected a finite number"},
    {"[device]\nbackend = tpu\n", "expected one of auto | cpu | cuda"},
    {"[train]\neval_steps = -1\n", "expected none, or a whole number from 0"},
    {"[train]\nprofile_steps = 0\n", "expected none, or steps counted from 1, such as 3 or 3-5"},
    {"[train]\nprofile_steps = 5-3\n", "expected none, or steps counted from 1, such as 3 or 3-5"},
    {"[train]\nprofile_steps = 3-\n", "expected none, or steps counted from 1, such as 3 or 3-5"},
    {"[train]\nprofile_steps = 3-5-7\n", "expected none, or steps counted from 1, such as 3 or 3-5"},
    {"[train]\nmetric_for_best_model = bleu\n", "expected one of loss | mean_token_accuracy | entropy"},
    {"[train]\neval_strategy = best\n", "expected one of no | steps | epoch"},
    {"[checkpoint]\nsave_strategy = never\n", "expected one of no | steps | epoch | best"},
    {"[train]\neval_steps = 0.1\n", "expected none, or a whole number from 0"},
    {"[train]\nactivation_checkpointing = all\n", "expected one of none | selective | full"},
    {"[train]\nattention_head_groups = many\n", "expected a whole number"},
    {"[train]\nactivation_offload_to = disk\n", "expected one of auto | nvme"},
    {"[checkpoint]\nasync = sometimes\n", "expected auto, true or false"},
    {"[train]\nmax_steps 2\n", "line `max_steps 2` of test.ini:2 cannot be read"},
    {"[model]\nrope_scaling = 4\n", "a JSON object on one line"},
    {"[model]\nrope_scaling = {\"factor\": 4\n", "a JSON object on one line"},
    {"[model]\nrope_scaling = {\"factor\": 4}\n", "a field `rope_type`"},
    {"[model]\nrope_scaling = {\"rope_type\": \"longrope\", \"factor\": 4, \"original_max_position_embeddings\": 64}\n",
     "a list of numbers above 0 as `short_factor`"},
    {"[model]\nrope_scaling = {\"rope_type\": \"su\", \"factor\": 4}\n", "\"su\" is not supported"},
    {"[model]\nrope_scaling = {\"rope_type\": \"yarn\", \"factor\": 4}\n",
     "a field `original_max_position_embeddings`"},
    {"[model]\nrope_scaling = {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 64, "
     "\"beta_fast\": 1, \"beta_slow\": 2}\n",
     "0 < beta_slow <= beta_fast"},
    {"[model]\nrope_scaling = {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 64, "
     "\"truncate\": 1}\n",
     "true or false as `truncate`"},
    {"[checkpoint]\nsave_hub_model = maybe\n", "expected auto, true, false or every_save"},
    {"[model]\nrope_scaling = {\"rope_type\": \"linear\"}\n", "a field `factor` in rope_type \"linear\""},
    {"[model]\nrope_scaling = {\"rope_type\": \"linear\", \"factor\": \"4\"}\n", "a number as `factor`"},
    {"[model]\nrope_scaling = {\"rope_type\": \"linear\", \"factor\": 0.5}\n", "a `factor` of 1 or more"},
    {"[model]\nrope_scaling = {\"rope_type\": \"linear\", \"factor\": 4, \"beta\": 1}\n", "no field `beta`"},
    {"[model]\nrope_scaling = {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
     "\"high_freq_factor\": 4}\n",
     "a field `original_max_position_embeddings`"},
    {"[model]\nrope_scaling = {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
     "\"high_freq_factor\": 1, \"original_max_position_embeddings\": 8192}\n",
     "0 < low_freq_factor < high_freq_factor"},
};

BOOST_DATA_TEST_CASE(a_wrong_text_is_refused, boost::unit_test::data::make(refused_texts), refused) {
  check_says(refusal([&] { (void)parse_text(refused.text); }), refused.says);
}

BOOST_AUTO_TEST_CASE(wrong_overrides_are_refused) {
  const auto says = [](const std::vector<std::string>& overrides, const std::string& part) {
    check_says(refusal([&] { (void)parse_text("", overrides); }), part);
  };
  says({"--parallel.tp_sise", "2"}, "did you mean `tp_size`?");
  says({"--parallel.tp_sise=2"}, "unknown key `parallel.tp_sise` on the command line");
  says({"--tp_sise", "2"}, "did you mean `tp_size`?");
  says({"--parallel.tpsize_", "2"}, "unknown key `parallel.tpsize_` on the command line");
  says({"--paralel.tp_size", "2"}, "write `parallel.tp_size`");
  says({"--parallel.tp_size", "2", "--parallel.tp_size", "4"}, "given twice, the second time on the command line");
  says({"--parallel.tp_size", "2", "--tp_size", "4"}, "set the same key");
  says({"--seed", "2"}, "write `data.seed` or `train.seed`");
  says({"--parallel.tp_size"}, "`--parallel.tp_size` has no value");
  says({"--train.output_dir", "--train.seed"}, "`--train.output_dir` has no value on the command line");
  says({"--train.output_dir", "two\nlines"}, "a text on one line");
}

BOOST_AUTO_TEST_CASE(a_section_may_be_left_out_where_one_has_the_key) {
  BOOST_TEST(parse_text("", {"--per_device_train_batch_size", "4"}).train.per_device_train_batch_size == 4);
  BOOST_TEST(parse_text("", {"--per-device-train-batch-size=5"}).train.per_device_train_batch_size == 5);
  BOOST_TEST(parse_text("learning_rate = 0.5\n").optimizer.learning_rate == 0.5);
  BOOST_TEST(parse_text("[train]\nmax_steps = 3\n", {"--max_steps", "4"}).train.max_steps == 4);
}

BOOST_AUTO_TEST_CASE(a_truth_needs_no_value_on_the_command_line) {
  BOOST_TEST(parse_text("", {"--tie_word_embeddings"}).model.tie_word_embeddings);
  BOOST_TEST(parse_text("", {"--tie_word_embeddings", "True", "--max_steps", "3"}).model.tie_word_embeddings);
  BOOST_TEST(!parse_text("", {"--shuffle", "no"}).data.shuffle);
  BOOST_TEST(!parse_text("", {"--no_shuffle"}).data.shuffle);
  BOOST_TEST(!parse_text("", {"--data.shuffle=0"}).data.shuffle);
}

BOOST_AUTO_TEST_CASE(nothing_is_a_value) {
  BOOST_TEST(parse_text("[data]\ntrain_files = a.h5\n", {"--data.train_files="}).data.train_files.empty());
  check_says(refusal([] { (void)parse_text("", {"--parallel.tp_size="}); }), "expected a whole number");
}

/// Values that are written alike in a file and as an option.
Config written(const std::string& key, const std::string& value, bool in_file) {
  return in_file ? parse_text(key + " = " + value + "\n") : parse_text("", {"--" + key, value});
}

BOOST_DATA_TEST_CASE(values_are_read_alike_in_files_and_options, boost::unit_test::data::make({true, false}), in_file) {
  for (const char* yes : {"true", "True", "TRUE", "yes", "1", "on", "'true'"}) {
    BOOST_TEST(written("tie_word_embeddings", yes, in_file).model.tie_word_embeddings, yes);
  }
  for (const char* no : {"false", "False", "no", "0", "off"}) {
    BOOST_TEST(!written("shuffle", no, in_file).data.shuffle, no);
  }
  BOOST_TEST(written("max_steps", "1e3", in_file).train.max_steps == 1000);
  BOOST_TEST(written("max_steps", "1.5e6", in_file).train.max_steps == 1500000);
  BOOST_TEST(written("max_steps", "\"12\"", in_file).train.max_steps == 12);
  BOOST_TEST(written("learning_rate", "'2e-5'", in_file).optimizer.learning_rate == 2e-5);
  for (const char* automatic : {"auto", "true", "True", "latest", "yes"}) {
    BOOST_TEST(written("resume_from_checkpoint", automatic, in_file).checkpoint.resume_from_checkpoint == "auto");
  }
  for (const char* none : {"none", "None", "false", "no"}) {
    BOOST_TEST(written("resume_from_checkpoint", none, in_file).checkpoint.resume_from_checkpoint == "none");
  }
  BOOST_TEST(written("resume_from_checkpoint", "runs/true", in_file).checkpoint.resume_from_checkpoint == "runs/true");

  ::setenv("SFT_TEST_FOLDER", "/scratch/a b", 1);
  ::setenv("HOME", "/home/me", 1);
  ::unsetenv("SFT_TEST_UNSET");
  const auto output_dir = [&](const std::string& text) {
    return written("output_dir", text, in_file).train.output_dir;
  };
  BOOST_TEST(output_dir("$SFT_TEST_FOLDER/out") == "/scratch/a b/out");
  BOOST_TEST(output_dir("${SFT_TEST_FOLDER}2") == "/scratch/a b2");
  BOOST_TEST(output_dir("\"$SFT_TEST_FOLDER/x # y\"") == "/scratch/a b/x # y");
  BOOST_TEST(output_dir("'$SFT_TEST_FOLDER'") == "$SFT_TEST_FOLDER");
  BOOST_TEST(output_dir("\"\\$5 \\\"x\\\"\"") == "$5 \"x\"");
  BOOST_TEST(output_dir("~/out") == "/home/me/out");
  BOOST_TEST(output_dir("~") == "/home/me");
  BOOST_TEST(output_dir("a~b") == "a~b");
  BOOST_TEST(output_dir("it's here") == "it's here");
  const std::vector<std::string> files{"/scratch/a b/x.h5", "y z.h5", "w.h5"};
  BOOST_TEST(written("train_files", "$SFT_TEST_FOLDER/x.h5, 'y z.h5' w.h5", in_file).data.train_files == files,
             boost::test_tools::per_element());
  const auto says = [&](const std::string& text, const std::string& part) {
    check_says(refusal([&] { (void)output_dir(text); }), part);
  };
  says("$SFT_TEST_UNSET/out", "expected the variable SFT_TEST_UNSET to be set");
  says("${SFT_TEST_UNSET", "expected $NAME or ${NAME}");
  says("100$", "expected $NAME or ${NAME}");
  says("~nobody-of-this-name/x", "a user of this system");
  says("'open", "expected a closing '");
  says("'one' two", "expected nothing behind the closing quote");
}

BOOST_AUTO_TEST_CASE(comments_begin_behind_white_space) {
  const Config config = parse_text(
      "; one\n  # two\n[train]  ; three\noutput_dir = a#b;c ; four\nmax_steps = 5\t# five\n"
      "[data]\ntrain_files = 'x #y.h5' ; six 'seven\n[device]\nbackend = cpu ;\n");
  BOOST_TEST(config.train.output_dir == "a#b;c");
  BOOST_TEST(config.train.max_steps == 5);
  BOOST_TEST(config.data.train_files.size() == 1u);
  BOOST_TEST(config.data.train_files.front() == "x #y.h5");
  BOOST_TEST((config.device.backend == BackendChoice::cpu));
}

BOOST_AUTO_TEST_CASE(ini_text_holds_any_text_in_any_environment) {
  ::setenv("SFT_TEST_FOLDER", "elsewhere", 1);
  for (const char* text :
       {"$SFT_TEST_FOLDER/x", "~/x", " x ", "a # b", "a ; b", "'x'", "\"x\"", "it's $5 \"\\", "#", "a,b", "C:\\x"}) {
    Config config;
    config.train.output_dir = text;
    config.data.train_files = {text, "y", text};
    const Config again = parse_text(to_ini(config));
    BOOST_TEST(again.train.output_dir == text);
    BOOST_TEST(again.data.train_files == config.data.train_files, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(differences_name_key_before_and_now) {
  Config before;
  before.optimizer.adam_beta2 = 0.99;
  Config now = before;
  BOOST_TEST(differences(before, now).empty());
  now.optimizer.adam_beta2 = 0.95;
  now.train.output_dir = "elsewhere";
  const std::vector<Difference> found = differences(before, now);
  BOOST_TEST_REQUIRE(found.size() == 2u);
  BOOST_TEST(found[0].section + "." + found[0].name == "train.output_dir");
  BOOST_TEST(found[1].section + "." + found[1].name == "optimizer.adam_beta2");
  BOOST_TEST(found[1].before == "0.99");
  BOOST_TEST(found[1].now == "0.95");
}

BOOST_AUTO_TEST_SUITE_END()
