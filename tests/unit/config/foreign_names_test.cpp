// SPDX-License-Identifier: Apache-2.0
// Names of TRL, transformers and Accelerate.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <ostream>

#include "config/foreign_names.hpp"
#include "config/keys.hpp"
#include "config/names.hpp"
#include "sft/config/parse.hpp"
#include "support/config_error.hpp"
#include "support/options_of.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::refusal;

namespace {

Config parse_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse(text, test::options_of(overrides), "run.ini");
}

/// Those of tests/unit/config/foreign_names.txt.
std::vector<std::string> listed_names() {
  std::ifstream stream(std::filesystem::path(SFT_SOURCE_DIR) / "tests/unit/config/foreign_names.txt");
  std::vector<std::string> names;
  for (std::string name; std::getline(stream, name);) {
    if (!name.empty() && name.front() != '#') names.push_back(name);
  }
  return names;
}

/// Older names, names of Accelerate's YAML files, and words of every day.
const char* const other_names[] = {"max_seq_length",
                                   "torch_dtype",
                                   "evaluation_strategy",
                                   "warmup_ratio",
                                   "no_cuda",
                                   "overwrite_output_dir",
                                   "use_liger",
                                   "wandb_project",
                                   "dataset_mixer",
                                   "save_safetensors",
                                   "group_by_length",
                                   "logging_dir",
                                   "fsdp_transformer_layer_cls_to_wrap",
                                   "use_flash_attention_2",
                                   "per_gpu_train_batch_size",
                                   "half_precision_backend",
                                   "fp16_opt_level",
                                   "use_mps_device",
                                   "jit_mode_eval",
                                   "use_ipex",
                                   "tpu_num_cores",
                                   "adafactor",
                                   "push_to_hub_token",
                                   "past_index",
                                   "ray_scope",
                                   "torchdynamo",
                                   "include_inputs_for_metrics",
                                   "split_batches",
                                   "lr",
                                   "batch_size",
                                   "num_epochs",
                                   "tensor_parallel_size",
                                   "rope_parameters",
                                   "quantization_config"};

bool is_known(const std::string& name) { return !keys_meant_by(name).empty() || find_foreign_name(name) != nullptr; }

}  // namespace

BOOST_AUTO_TEST_SUITE(names_of_others)

BOOST_AUTO_TEST_CASE(every_name_that_users_bring_means_something) {
  const std::vector<std::string> names = listed_names();
  BOOST_TEST(names.size() > 300);
  for (const std::string& name : names) BOOST_CHECK_MESSAGE(is_known(name), "sft knows nothing of " << name);
  for (const char* name : other_names) BOOST_CHECK_MESSAGE(is_known(name), "sft knows nothing of " << name);
}

BOOST_AUTO_TEST_CASE(assignments_name_keys_and_values_that_exist) {
  for (const std::string& name : foreign_names()) {
    const ForeignName* foreign = find_foreign_name(name);
    BOOST_TEST((keys_named(name).empty()), name << " is a key of ours: the table is not asked");
    bool takes_any = false;
    for (const Accepted& accepted : foreign->accepted) {
      const std::string assignment = accepted.assignment;
      takes_any = takes_any || std::string(accepted.value) == "*";
      if (assignment.empty()) continue;
      const std::size_t equals = assignment.find('=');
      const Key* key = find_key(assignment.substr(0, equals));
      BOOST_TEST_REQUIRE(key != nullptr, name);
      const std::string value = assignment.substr(equals + 1);
      Config config;
      if (value != "*") BOOST_CHECK_NO_THROW(key->set(value, config));
    }
    BOOST_TEST((takes_any || !std::string(foreign->why).empty()), name << " is refused without a reason");
    BOOST_TEST((takes_any || !std::string(foreign->what_to_do).empty()), name << " is refused without a way out");
  }
}

BOOST_AUTO_TEST_CASE(names_that_mean_a_key_set_it) {
  BOOST_TEST((parse_text("[train]\nbf16 = True\n").train.precision == Precision::bf16));
  BOOST_TEST((parse_text("bf16 = false\n").train.precision == Precision::fp32));
  BOOST_TEST((parse_text("", {"--bf16"}).train.precision == Precision::bf16));
  BOOST_TEST((parse_text("", {"--no_bf16"}).train.precision == Precision::fp32));
  BOOST_TEST((parse_text("", {"--mixed_precision", "no"}).train.precision == Precision::fp32));
  BOOST_TEST((parse_text("", {"--torch_dtype", "bfloat16"}).train.precision == Precision::pure_bf16));
  for (const std::string name : {"adamw_torch_fused", "paged_adamw_32bit"}) {
    BOOST_TEST((parse_text("optim = " + name + "\n").optimizer.optim == OptimizerKind::adamw_torch), name);
  }
  BOOST_TEST((parse_text("", {"--optim", "lion_32bit"}).optimizer.optim == OptimizerKind::lion));
  for (const std::string name : {"adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit"}) {
    BOOST_TEST((parse_text("optim = " + name + "\n").optimizer.optim == OptimizerKind::adamw_8bit), name);
  }
  BOOST_TEST((parse_text("offload_optimizer_device = cpu\n").train.offload_optimizer == Offload::host));
  BOOST_TEST((parse_text("offload_optimizer_device = none\n").train.offload_optimizer == Offload::none));
  BOOST_TEST((parse_text("offload_param_device = nvme\n").train.offload_parameters == Offload::nvme));
  BOOST_TEST(parse_text("offload_optimizer_nvme_path = /scratch\n").train.offload_folder == "/scratch");
  BOOST_TEST((parse_text("", {"--fsdp_offload_params", "true"}).train.offload_parameters == Offload::host));
  BOOST_TEST(parse_text("[parallel]\ncp_size = 4\n").parallel.sp_size == 4);
  BOOST_TEST(parse_text("", {"--parallelism_config_cp_size", "2"}).parallel.sp_size == 2);
  BOOST_TEST((parse_text("", {"--parallelism_config_cp_comm_strategy", "allgather"}).parallel.sp_method ==
              SpMethod::all_gather));
  BOOST_TEST((parse_text("cp_comm_strategy = alltoall\n").parallel.sp_method == SpMethod::ring));
  BOOST_TEST((parse_text("", {"--sp_backend", "deepspeed"}).parallel.sp_method == SpMethod::ulysses));
  BOOST_TEST(parse_text("", {"--sequence_parallel"}).parallel.tp_sequence_parallel.value());
  BOOST_TEST(parse_text("megatron_lm_sequence_parallelism = true\n").parallel.tp_sequence_parallel.value());
  BOOST_TEST(parse_text("", {"--parallelism_config_dp_shard_size", "2"}).parallel.dp_shard_size == 2);
  const Config kept = parse_text("", {"--fsdp_reshard_after_forward", "false"});
  BOOST_TEST((kept.parallel.reshard_after_forward == Reshard::never));
  BOOST_TEST(parse_text("", {"--fsdp_sharding_strategy", "SHARD_GRAD_OP"}).parallel.zero_stage == 2);
  BOOST_TEST(parse_text("", {"--fsdp_sharding_strategy", "NO_SHARD"}).parallel.zero_stage == 0);
  BOOST_TEST(parse_text("", {"--fsdp=hybrid_shard_zero2 auto_wrap"}).parallel.zero_stage == 2);
  BOOST_TEST(parse_text("", {"--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"}).parallel.blocks_per_unit == 1);
  BOOST_TEST(parse_text("", {"--data_seed", "7"}).data.seed == 7u);
  BOOST_TEST(parse_text("", {"--gradient_clipping", "0.5"}).optimizer.max_grad_norm == 0.5);
  BOOST_TEST(parse_text("", {"--ddp_timeout", "600"}).device.comm_timeout_s == 600);
  BOOST_TEST(!parse_text("", {"--train_sampling_strategy", "sequential"}).data.shuffle);
  BOOST_TEST((parse_text("", {"--evaluation_strategy", "no"}).train.eval_strategy == EvalStrategy::no));
  using Checkpointing = ActivationCheckpointing;
  const auto checkpointing = [](const std::string& text) { return parse_text(text).train.activation_checkpointing; };
  BOOST_TEST((checkpointing("[train]\ngradient_checkpointing = true\n") == Checkpointing::full));
  BOOST_TEST((checkpointing("[train]\ngradient_checkpointing = False\n") == Checkpointing::none));
  BOOST_TEST((checkpointing("[train]\nfsdp_activation_checkpointing = true\n") == Checkpointing::full));
  BOOST_TEST((parse_text("", {"--gradient_checkpointing"}).train.activation_checkpointing == Checkpointing::full));
  BOOST_TEST(
      (checkpointing("[train]\ngradient_checkpointing_kwargs = {'use_reentrant': false}\n") == Checkpointing::none));
  BOOST_TEST(parse_text("[train]\nactivation_offloading = true\n").train.activation_offload);
  BOOST_TEST((parse_text("", {"--use_cpu"}).device.backend == BackendChoice::cpu));
}

BOOST_AUTO_TEST_CASE(weights_in_bf16_alone_have_no_float32_masters_and_beside_mixed_precision_they_do) {
  using Words = std::vector<std::string>;
  const auto precision = [](const std::string& text, const Words& words = {}) {
    return parse_text(text, words).train.precision;
  };
  BOOST_TEST((precision("[model]\ndtype = bfloat16\n") == Precision::pure_bf16));
  BOOST_TEST((precision("torch_dtype = bfloat16\nbf16 = true\n") == Precision::bf16));
  BOOST_TEST((precision("bf16 = true\ndtype = bfloat16\n") == Precision::bf16));
  BOOST_TEST((precision("", {"--dtype", "bfloat16", "--mixed_precision", "bf16"}) == Precision::bf16));
  BOOST_TEST((precision("", {"--torch_dtype=bfloat16", "--fsdp_mixed_precision_policy=bf16"}) == Precision::bf16));
  BOOST_TEST((precision("mixed_precision = bf16\n", {"--dtype", "bfloat16"}) == Precision::bf16));
  BOOST_TEST((precision("dtype = bfloat16\n", {"--bf16"}) == Precision::bf16));
  // Without mixed precision, said or not, weights stay what they are.
  BOOST_TEST((precision("bf16 = false\ndtype = bfloat16\n") == Precision::pure_bf16));
  BOOST_TEST((precision("dtype = bfloat16\n", {"--mixed_precision", "no"}) == Precision::pure_bf16));
  BOOST_TEST((precision("bf16 = true\ndtype = bfloat16\n", {"--no_bf16"}) == Precision::pure_bf16));
  BOOST_TEST((precision("dtype = bfloat16\nbf16 = true\n", {"--dtype", "float32"}) == Precision::bf16));
  BOOST_TEST((precision("dtype = float32\nbf16 = false\n") == Precision::fp32));
  // Our own key on the command line wins, and beside the name of another it is one too many.
  BOOST_TEST((precision("dtype = bfloat16\n", {"--precision", "fp32"}) == Precision::fp32));
  BOOST_CHECK_THROW(static_cast<void>(precision("dtype = bfloat16\n[train]\nprecision = bf16\n")), Error);
}

BOOST_AUTO_TEST_CASE(the_values_of_accelerates_files_that_change_nothing_pass) {
  // fsdp2.yaml and zero3.yaml of TRL, but for what mpirun needs and weights in 16 bit.
  const Config config = parse_text(
      "compute_environment = LOCAL_MACHINE\ndebug = false\ndistributed_type = FSDP\ndowncast_bf16 = 'no'\n"
      "enable_cpu_affinity = false\nfsdp_activation_checkpointing = false\n"
      "fsdp_auto_wrap_policy = TRANSFORMER_BASED_WRAP\nfsdp_cpu_ram_efficient_loading = true\n"
      "fsdp_offload_params = false\nfsdp_reshard_after_forward = true\nfsdp_state_dict_type = FULL_STATE_DICT\n"
      "fsdp_version = 2\nmachine_rank = 0\nmain_training_function = main\nmixed_precision = bf16\nnum_machines = 1\n"
      "rdzv_backend = static\nsame_network = true\ntpu_env = []\ntpu_use_cluster = false\ntpu_use_sudo = false\n"
      "use_cpu = false\ngpu_ids = all\ncp_size = 1\ndeepspeed_multinode_launcher = standard\nzero3_init_flag = true\n"
      "offload_optimizer_device = none\noffload_param_device = none\nzero_stage = 3\n");
  BOOST_TEST(to_ini(config) == to_ini(Config{}));
  BOOST_TEST(parse_text("distributed_type = MULTI_GPU\n").parallel.zero_stage == 0);
  BOOST_TEST(parse_text("fsdp_reshard_after_forward = FULL_SHARD\n").parallel.zero_stage == 3);
  BOOST_TEST(parse_text("fsdp_reshard_after_forward = SHARD_GRAD_OP\n").parallel.zero_stage == 2);
  BOOST_TEST(parse_text("sp_size = 2\nparallelism_config_cp_size = 1\n").parallel.sp_size == 2);
}

BOOST_AUTO_TEST_CASE(all_that_is_refused_is_told_at_once) {
  const std::string text = refusal([] {
    (void)parse_text("[train]\nfp16 = true\nmax_steps = many\n[modle]\nhidden_size = 3\n[train]\nseed = 1\n",
                     {"--packing", "--num_machines", "2"});
  });
  check_says(text, "5 settings cannot be used (each line says why, and what to do):\n  ");
  for (const char* part :
       {"unknown section [modle] in run.ini:4", "`fp16 = true` in run.ini:2", "`train.max_steps = many` in run.ini:3",
        "`packing` on the command line", "`num_machines = 2` on the command line"}) {
    check_says(text, part);
  }
  BOOST_TEST(text.find("hidden_size") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_is_refused_twice_in_the_same_words_is_told_once) {
  const std::string text = refusal([] {
    (void)parse_text("", {"--max_steps", "1", "--max_steps", "2", "--max_steps", "3"});
  });
  check_says(text, "`max_steps` is given twice");
  BOOST_TEST(text.find("settings cannot be used") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(switches_of_old_versions_and_of_peft_mean_what_there_is) {
  BOOST_TEST((parse_text("adafactor = true\n").optimizer.optim == OptimizerKind::adafactor));
  BOOST_TEST((parse_text("adafactor = false\n").optimizer.optim == OptimizerKind::adamw_torch));
  BOOST_TEST(to_ini(parse_text("lora_task_type = CAUSAL_LM\n")) == to_ini(Config{}));
  check_says(refusal([] { (void)parse_text("lora_task_type = SEQ_CLS\n"); }), "causal language models alone");
}

BOOST_AUTO_TEST_CASE(a_name_that_one_section_has_may_stand_in_any) {
  BOOST_TEST(parse_text("[train]\nlearning_rate = 1e-3\ntp_size = 2\n").optimizer.learning_rate == 1e-3);
  BOOST_TEST(parse_text("learning_rate = 1e-3\n[model]\ntp_size = 2\n").parallel.tp_size == 2);
  BOOST_TEST(parse_text("[train]\nseed = 7\n").train.seed == 7U);
  check_says(refusal([] { (void)parse_text("[optimizer]\nseed = 7\n"); }), "write `");
}

BOOST_AUTO_TEST_CASE(checkpointing_without_a_value_is_all_of_it) {
  using Checkpointing = ActivationCheckpointing;
  const auto checkpointing = [](const std::vector<std::string>& words) {
    return parse_text("activation_checkpointing = selective\n", words).train.activation_checkpointing;
  };
  BOOST_TEST((checkpointing({"--activation_checkpointing"}) == Checkpointing::full));
  BOOST_TEST((checkpointing({"--train.activation_checkpointing"}) == Checkpointing::full));
  BOOST_TEST((checkpointing({"--no_activation_checkpointing"}) == Checkpointing::none));
  BOOST_TEST((checkpointing({"--activation_checkpointing", "none"}) == Checkpointing::none));
}

BOOST_AUTO_TEST_CASE(harmless_names_change_nothing) {
  const Config config = parse_text(
      "[train]\nreport_to = none\nfp16 = false\ngradient_checkpointing = False\nseed = 42\n"
      "[model]\nattn_implementation = flash_attention_2\ntorch_dtype = float32\nhidden_act = silu\n",
      {"--use_liger_kernel", "--dataloader_num_workers", "4", "--run_name=x", "--do_train", "--eval_strategy",
       "steps"});
  BOOST_TEST(to_ini(config) == to_ini(Config{}));
}

struct Refused {
  const char* text;
  const char* says;
};

std::ostream& operator<<(std::ostream& out, const Refused& refused) { return out << refused.text; }

const Refused refused_texts[] = {
    {"fp16 = true\n", "sft does not take `fp16 = true` in run.ini:1 (there is no float16 training"},
    {"fp16 = true\n", "set train.precision = bf16"},
    {"gradient_checkpointing = sometimes\n", "set train.activation_checkpointing"},
    {"gradient_checkpointing = true\nfsdp_activation_checkpointing = false\n",
     "both mean train.activation_checkpointing"},
    {"dataloader_drop_last = true\n", "every row of an epoch is trained on"},
    {"packing = true\n", "give the option to sft-prepare"},
    {"max_seq_length = 4096\n", "give --max_length to sft-prepare"},
    {"max_length = 4096\n", "give --max_length to sft-prepare"},
    {"report_to = comet_ml\n", "tensorboard"},
    {"optim = adamw_2bit\n", "expected one of adamw_torch | adamw_8bit | adafactor | lion | muon | sgd"},
    {"offload_optimizer_device = disk\n", "expected one of none | host | nvme"},
    {"lr = 1e-4\n", "write optimizer.learning_rate"},
    {"load_in_8bit = true\n", "no weights in 8 bits"},
    {"fp16_full_eval = true\n", "in the precision of training"},
    {"tensor_parallel_size = 2\n", "write parallel.tp_size"},
    {"num_processes = 8\n", "`mpirun -np`"},
    {"deepspeed = ds.json\n", "give it to sft-launch, which reads it"},
    {"dtype = float16\n", "weights are kept in float32, or in bf16 alone"},
    {"dataset_name = trl-lib/Capybara\n", "sft-prepare --input FILE"},
    {"fsdp = onload\n", "set parallel.zero_stage"},
    {"megatron_lm_tp_degree = 2\n", "write parallel.tp_size"},
    {"megatron_lm_pp_degree = 2\n", "sft does not take `megatron_lm_pp_degree = 2`"},
    {"fp8_backend = MSAMP\n", "set train.fp8 to tensorwise or blockwise"},
    {"mixed_precision = fp16\n", "write bf16, fp8 or no"},
    {"num_cpu_threads_per_process = 4\n", "OMP_NUM_THREADS"},
    {"use_megatron_lm = true\n", "write the sizes under [parallel]"},
    {"cp_size = two\n", "`cp_size = two` in run.ini:1 is not valid (expected a whole number)"},
};

BOOST_DATA_TEST_CASE(other_values_are_refused_with_what_to_write, boost::unit_test::data::make(refused_texts),
                     refused) {
  check_says(refusal([&] { (void)parse_text(refused.text); }), refused.says);
}

BOOST_AUTO_TEST_CASE(a_flag_of_sft_prepare_is_refused_on_the_command_line) {
  check_says(refusal([] { (void)parse_text("", {"--packing"}); }), "give the option to sft-prepare");
  check_says(refusal([] { (void)parse_text("", {"--packing", "true"}); }), "sft does not take `packing = true` on the");
}

BOOST_AUTO_TEST_CASE(a_value_on_two_lines_is_refused_of_names_that_sft_prepare_only_understands) {
  check_says(refusal([] { (void)config::meaning_to_prepare({.name = "padding_free", .value = "1\n2"}, {}); }),
             "the value of --padding_free is not valid (expected a text on one line): see sft-prepare --help");
}

BOOST_AUTO_TEST_CASE(no_wild_guesses) {
  for (const char* name : {"velocity", "report_too_much", "tpx.y", "foo"}) {
    const std::string text = refusal([&] { (void)parse_text("", {std::string("--") + name, "1"}); });
    BOOST_CHECK_MESSAGE(text.find("did you mean") == std::string::npos, text);
  }
}

BOOST_AUTO_TEST_CASE(a_misspelt_foreign_name_is_guessed) {
  const auto says = [](const std::string& name, const std::string& part) {
    check_says(refusal([&] { (void)parse_text("", {"--" + name + "=1"}); }), part);
  };
  says("packng", "did you mean `packing`? Then give the option to sft-prepare");
  says("num_epoch", "did you mean `num_epochs`? Then write train.num_train_epochs");
  says("report_too", "did you mean `report_to`?");
}

BOOST_AUTO_TEST_CASE(every_name_means_something_to_sft_prepare) {
  for (const std::string& name : listed_names()) {
    try {
      const std::optional<Option> meant = meaning_to_prepare({name, "?"}, {});
      BOOST_TEST((!meant || meant->name != name), name << " is unknown to sft-prepare");
    } catch (const Error&) {  // which says what to do instead
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
