// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/foreign_file.hpp"

#include <boost/test/unit_test.hpp>

#include "launch_fixture.hpp"
#include "support/config_error.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::config_of;
using test::profile;
using test::read_text;
using test::refusal;
using test::request_of;

BOOST_AUTO_TEST_SUITE(foreign_file)

BOOST_AUTO_TEST_CASE(profiles_of_stages) {
  BOOST_TEST(config_of(profile("multi_gpu")).parallel.zero_stage == 0);
  BOOST_TEST(config_of(profile("zero1")).parallel.zero_stage == 1);
  BOOST_TEST(config_of(profile("zero2")).parallel.zero_stage == 2);
  BOOST_TEST(config_of(profile("zero3")).parallel.zero_stage == 3);
  BOOST_TEST(request_of(profile("single_gpu")).is_single_process);
}

BOOST_AUTO_TEST_CASE(versions_of_fsdp_are_no_stages) {
  for (const char* name : {"fsdp1", "fsdp2"}) {
    const Config config = config_of(profile(name));
    BOOST_TEST(config.parallel.zero_stage == 3);
    BOOST_TEST((config.parallel.reshard_after_forward == Reshard::always));
  }
}

BOOST_AUTO_TEST_CASE(profile_of_context_parallelism) {
  const Config config = config_of(profile("context_parallel_2gpu"));
  BOOST_TEST(config.parallel.sp_size == 2);
  BOOST_TEST(config.parallel.dp_shard_size == 1);
  BOOST_TEST((config.parallel.sp_method == SpMethod::all_gather));
  BOOST_TEST((config.train.activation_checkpointing == ActivationCheckpointing::full));
  BOOST_TEST(request_of(profile("context_parallel_2gpu")).num_processes.value_or(0) == 2);
}

BOOST_AUTO_TEST_CASE(profile_of_ulysses) {
  const Config config = config_of(profile("alst_ulysses_4gpu"));
  BOOST_TEST(config.parallel.sp_size == 2);
  BOOST_TEST(config.parallel.dp_shard_size == 2);
  BOOST_TEST((config.parallel.sp_method == SpMethod::ulysses));
  BOOST_TEST(config.parallel.zero_stage == 3);
  BOOST_TEST(request_of(profile("alst_ulysses_4gpu")).num_processes.value_or(0) == 4);
}

BOOST_AUTO_TEST_CASE(profile_of_the_planner) {
  const launch::Request request = request_of(profile("auto"));
  const std::vector<std::string>& sizes = launch::sizes_of_plans();
  for (const std::string& size : sizes) {
    const bool follows = size == "ep_size" || size == "sp_method";  // of models with experts; with sp_size
    BOOST_TEST(launch::free_sizes(request).contains(size) == (size != "ep_size"), size);
    BOOST_TEST(request.automatic.contains(size) == !follows, size);
  }
  BOOST_TEST((config_of(profile("auto")).train.precision == Precision::bf16));
}

BOOST_AUTO_TEST_CASE(auto_in_blocks_of_accelerate_is_left_to_the_options) {
  const char* const text =
      "gradient_accumulation_steps: 2\ndeepspeed_config:\n  gradient_accumulation_steps: auto\n  zero_stage: 2\n";
  const launch::Request request = request_of(read_text(text));
  BOOST_TEST(request.automatic.empty());
  BOOST_TEST(config_of(read_text(text)).train.gradient_accumulation_steps == 2);
  BOOST_TEST(request_of(read_text("tp_size: auto\n")).automatic.contains("tp_size"));
}

BOOST_AUTO_TEST_CASE(unknown_profile) {
  const std::string said = refusal([] { static_cast<void>(profile("zero33")); });
  check_says(
      said, "alst_ulysses_4gpu, auto, context_parallel_2gpu, fsdp1, fsdp2, multi_gpu, single_gpu, zero1, zero2, zero3");
  check_says(said, "did you mean zero3?");
}

BOOST_AUTO_TEST_CASE(context_parallelism_gathers_by_default) {
  const char* const text =
      "distributed_type: FSDP\nparallelism_config:\n  parallelism_config_cp_size: 4\n  parallelism_config_sp_size: 1\n";
  BOOST_TEST((config_of(read_text(text)).parallel.sp_method == SpMethod::all_gather));
  BOOST_TEST(config_of(read_text(text)).parallel.sp_size == 4);
  const std::string written = std::string(text) + "  parallelism_config_cp_comm_strategy: alltoall\n";
  BOOST_TEST((config_of(read_text(written)).parallel.sp_method == SpMethod::ring));
  BOOST_TEST(config_of(read_text("parallelism_config:\n  parallelism_config_cp_size: 1\n")).parallel.sp_size == 1);
}

BOOST_AUTO_TEST_CASE(ulysses_under_its_older_name) {
  const char* const text =
      "distributed_type: DEEPSPEED\nparallelism_config:\n  parallelism_config_cp_size: 2\n"
      "  parallelism_config_cp_backend: deepspeed\n  parallelism_config_cp_seq_length_is_variable: true\n"
      "  parallelism_config_cp_attn_implementation: flash_attention_2\n";
  BOOST_TEST((config_of(read_text(text)).parallel.sp_method == SpMethod::ulysses));
  BOOST_TEST(config_of(read_text(text)).parallel.sp_size == 2);
}

BOOST_AUTO_TEST_CASE(mixed_precision_keeps_float32_masters) {
  launch::Request request = request_of(profile("zero3"));
  launch::take(request, {{{"torch_dtype", "bfloat16"}, "on the command line"}}, test::options_of_prepare());
  BOOST_TEST((parse_sources(request.training, {}).train.precision == Precision::bf16));
  launch::Request alone;
  launch::take(alone, {{{"torch_dtype", "bfloat16"}, "on the command line"}}, test::options_of_prepare());
  BOOST_TEST((parse_sources(alone.training, {}).train.precision == Precision::pure_bf16));
}

BOOST_AUTO_TEST_CASE(blocks_of_accelerate) {
  const char* const text =
      "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: DEEPSPEED\ndowncast_bf16: 'no'\n"
      "deepspeed_config:\n  gradient_accumulation_steps: 4\n  gradient_clipping: 0.5\n  offload_optimizer_device: cpu\n"
      "  offload_param_device: none\n  zero3_init_flag: true\n  zero3_save_16bit_model: true\n  zero_stage: 3\n"
      "machine_rank: 0\nmain_process_ip: 10.0.0.1\nmain_process_port: 29500\nnum_machines: 2\nnum_processes: 16\n"
      "rdzv_backend: c10d\nsame_network: true\ntpu_env: []\nuse_cpu: false\n";
  const launch::ForeignFile file = read_text(text);
  const Config config = config_of(file);
  BOOST_TEST(config.train.gradient_accumulation_steps == 4);
  BOOST_TEST(config.optimizer.max_grad_norm == 0.5);
  BOOST_TEST((config.train.offload_optimizer == Offload::host));
  const launch::Request request = request_of(file);
  BOOST_TEST_REQUIRE(request.notes.size() == 2U);
  test::check_says(request.notes.front(), "a finished run leaves the whole model in any case");
  test::check_says(request.notes.back(), "`rdzv_backend` without effect");
  BOOST_TEST(request.num_machines.value_or(0) == 2);
  BOOST_TEST(request.num_processes.value_or(0) == 16);
}

BOOST_AUTO_TEST_CASE(all_refusals_at_once) {
  const char* const text =
      "distributed_type: MEGATRON_LM\nmixed_precision: fp16\nmachine_rank: 1\nnum_processes: many\nunheard_of: 3\n"
      "deepspeed_config:\n  seq_parallel_communication_data_type: fp16\n";
  const std::string said = refusal([&] { static_cast<void>(config_of(read_text(text))); });
  check_says(said, "6 settings cannot be used");
  for (const char* part : {"file.yaml:1", "file.yaml:2", "file.yaml:3", "file.yaml:4", "file.yaml:5", "file.yaml:7"}) {
    check_says(said, part);
  }
}

BOOST_AUTO_TEST_CASE(deepspeed_json) {
  const char* const text = R"({
	"train_micro_batch_size_per_gpu": 2,
	"train_batch_size": "auto",
	"gradient_accumulation_steps": 3,
	"gradient_clipping": 0.25,
	"bf16": {"enabled": true},
	"fp16": {"enabled": false, "loss_scale": 0, "initial_scale_power": 16},
	"optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.8, 0.95], "eps": 1e-7, "weight_decay": 0.1}},
	"zero_optimization": {"stage": 3, "overlap_comm": true, "stage3_max_live_parameters": 1e9,
	  "zero_hpz_partition_size": 4, "zero_quantized_weights": false,
	  "offload_optimizer": {"device": "nvme", "nvme_path": "/local", "pin_memory": true},
	  "offload_param": {"device": "none"}},
	"steps_per_print": 1e5, "wall_clock_breakdown": false
})";
  const Config config = config_of(read_text(text, "ds.json"));
  BOOST_TEST(config.train.per_device_train_batch_size == 2);
  BOOST_TEST(config.train.gradient_accumulation_steps == 3);
  BOOST_TEST(config.optimizer.max_grad_norm == 0.25);
  BOOST_TEST(config.optimizer.learning_rate == 3e-5);
  BOOST_TEST(config.optimizer.adam_beta1 == 0.8);
  BOOST_TEST(config.optimizer.adam_beta2 == 0.95);
  BOOST_TEST(config.optimizer.adam_epsilon == 1e-7);
  BOOST_TEST(config.optimizer.weight_decay == 0.1);
  BOOST_TEST((config.train.offload_optimizer == Offload::nvme));
  BOOST_TEST(config.train.offload_folder == "/local");
  BOOST_TEST(config.parallel.zero_stage == 3);
  BOOST_TEST(config.parallel.reshard_size == 4);
  BOOST_TEST((config.train.precision == Precision::bf16));
}

BOOST_AUTO_TEST_CASE(deepspeed_auto_is_left_to_the_options) {
  const char* const text =
      R"({"zero_optimization": {"stage": 2}, "gradient_clipping": "auto", "train_micro_batch_size_per_gpu": "auto",
          "bf16": {"enabled": "auto"}, "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}}})";
  const Config config = config_of(read_text(text, "ds.json")), defaults;
  BOOST_TEST(config.optimizer.max_grad_norm == defaults.optimizer.max_grad_norm);
  BOOST_TEST(config.optimizer.learning_rate == defaults.optimizer.learning_rate);
  BOOST_TEST(config.parallel.zero_stage == 2);
}

BOOST_AUTO_TEST_CASE(deepspeed_refusals) {
  const char* const text =
      R"({"zero_optimization": {"stage": 1, "zero_quantized_gradients": true}, "fp16": {"enabled": true},
          "scheduler": {"type": "WarmupLR"}, "optimizer": {"type": "OneBitAdam"}, "pipeline": {"stages": 2}})";
  const std::string said = refusal([&] { static_cast<void>(config_of(read_text(text, "ds.json"))); });
  check_says(said, "5 settings cannot be used");
  for (const char* part :
       {"zero_quantized_gradients", "fp16", "WarmupLR", "optimizer.type = OneBitAdam", "pipeline.stages"}) {
    check_says(said, part);
  }
}

BOOST_AUTO_TEST_CASE(deepspeed_names_of_stage_3_with_and_without_their_prefix) {
  for (const std::string prefix : {"", "stage3_"}) {
    const std::string text = R"({"zero_optimization": {"stage": 3, ")" + prefix +
                             R"(prefetch_bucket_size": "auto", ")" + prefix +
                             R"(param_persistence_threshold": 1e5, ")" + prefix + R"(max_live_parameters": 0, ")" +
                             prefix + R"(max_reuse_distance": 0, ")" + prefix +
                             R"(gather_16bit_weights_on_model_save": true}, "bfloat16": {"enabled": true}})";
    const launch::ForeignFile file = read_text(text, "ds.json");
    BOOST_TEST(config_of(file).parallel.zero_stage == 3);
    BOOST_TEST(request_of(file).notes.size() == 1U);
  }
}

BOOST_AUTO_TEST_CASE(deepspeed_defaults_and_old_names) {
  BOOST_TEST(config_of(read_text(R"({"train_micro_batch_size_per_gpu": 2})", "ds.json")).parallel.zero_stage == 0);
  BOOST_TEST(config_of(read_text(R"({"zero_optimization": true})", "ds.json")).parallel.zero_stage == 1);
  const Config old = config_of(read_text(
      R"({"zero_optimization": {"stage": 2, "cpu_offload": true}, "optimizer": {"type": "Adam", "params": {"lr": 1e-3}}})",
      "ds.json"));
  BOOST_TEST((old.train.offload_optimizer == Offload::host));
  BOOST_TEST((old.optimizer.optim == OptimizerKind::adamw_torch));
  const std::string said = refusal([] {
    static_cast<void>(config_of(read_text(
        R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "mics_shard_size": 8},
            "optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}, "gradient_predivide_factor": 2})",
        "ds.json")));
  });
  for (const char* part : {"offload_optimizer.ratio = 0.5", "mics_shard_size = 8", "optimizer.type = Adam",
                           "gradient_predivide_factor = 2"}) {
    check_says(said, part);
  }
}

BOOST_AUTO_TEST_CASE(numbers_as_yaml_1_1_has_them) {
  const Config config = config_of(read_text(
      "logging_steps: 5.0\nsave_steps: 1_000\neval_steps: 0x10\nmax_steps: 0o17\nseed: 010\nlearning_rate: 1_0e-5\n"
      "lora_r: 0b100\nuse_peft: yes\nrank_pattern: {q_proj: 1_6}\n"));
  BOOST_TEST(config.train.logging_steps == 5);
  BOOST_TEST(config.checkpoint.save_steps == 1000);
  BOOST_TEST(config.train.eval_steps == 16);
  BOOST_TEST(config.train.max_steps == 15);
  BOOST_TEST(config.train.seed == 8U);
  BOOST_TEST(config.optimizer.learning_rate == 1e-4);
  BOOST_TEST(config.lora.lora_r == 4);
  BOOST_TEST(config.lora.use_peft);
  BOOST_TEST(config.lora.rank_pattern.front().second == 16);
  BOOST_TEST(config_of(read_text(R"({"logging_steps": 5.0})", "flat.json")).train.logging_steps == 5);
}

BOOST_AUTO_TEST_CASE(blocks_and_files_on_a_command_line) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("ds.json");
  std::ofstream(path) << R"({"zero_optimization": {"stage": 1}})";
  const auto flat = [](const std::string& name, const std::string& value) {
    return launch::lay_flat({{{name, value}, "on the command line"}});
  };
  BOOST_TEST(config_of(flat("deepspeed", path)).parallel.zero_stage == 1);
  BOOST_TEST(config_of(flat("deepspeed_config_file", path)).parallel.zero_stage == 1);
  BOOST_TEST(config_of(flat("deepspeed", R"({"zero_optimization": {"stage": 2}})")).parallel.zero_stage == 2);
  const Config parallel = config_of(flat("parallelism_config", R"({"cp_size": 2, "tp_size": 1})"));
  BOOST_TEST(parallel.parallel.sp_size == 2);
  BOOST_TEST((parallel.parallel.sp_method == SpMethod::all_gather));
  const Config kept = config_of(flat("fsdp_config", R"({"reshard_after_forward": false})"));
  BOOST_TEST((kept.parallel.reshard_after_forward == Reshard::never));
  BOOST_TEST(flat("fsdp_config", "none").settings.empty());
  check_says(refusal([&] { static_cast<void>(config_of(flat("fsdp_config", "fsdp"))); }),
             "`fsdp_config = fsdp` on the command line cannot be read (it is neither a JSON object nor");
  check_says(refusal([&] { static_cast<void>(config_of(flat("accelerator_config", R"({"split_batches": true})"))); }),
             "`split_batches = true` in accelerator_config on the command line");
}

BOOST_AUTO_TEST_CASE(recipe_of_trl) {
  const char* const text =
      "model_name_or_path: org/name\ndataset_name: data\ndataset_config: part\nmax_length: 2048\npacking: true\n"
      "use_peft: true\nlora_target_modules:\n- q_proj\n- k_proj\nlearning_rate: 2.0e-4\nnum_train_epochs: 1\n"
      "lr_scheduler_type: cosine\nreport_to: none\nbf16: true\ngradient_checkpointing: true\n"
      "gradient_checkpointing_kwargs:\n  use_reentrant: false\nmodel_init_kwargs:\n  attn_implementation: sdpa\n"
      "seed: 7\nhub_model_id: mine\n";
  const launch::ForeignFile file = read_text(text);
  const launch::Request request = request_of(file);
  const Config config = config_of(file);
  BOOST_TEST(request.model == "org/name");
  BOOST_TEST(request.train.front().name == "data");
  BOOST_TEST(request.train.front().config == "part");
  BOOST_TEST(request.preparation.at("max_length") == "2048");
  BOOST_TEST(request.preparation.at("packing") == "true");
  BOOST_TEST(request.preparation.at("seed") == "7");
  BOOST_TEST(config.train.seed == 7U);
  BOOST_TEST(config.data.seed == 7U);
  BOOST_TEST(config.lora.lora_target_modules.size() == 2U);
  BOOST_TEST(config.optimizer.learning_rate == 2e-4);
  BOOST_TEST((config.train.activation_checkpointing == ActivationCheckpointing::full));
}

BOOST_AUTO_TEST_CASE(mixture_of_trl) {
  const char* const text =
      "model_name_or_path: m\ndatasets:\n- path: json\n  data_files: a.jsonl\n  fraction: 0.75\n- path: org/set\n  "
      "name: "
      "part\n  split: all\n  fraction: 1\n";
  const launch::Request request = request_of(read_text(text));
  BOOST_TEST(request.train.size() == 2U);
  BOOST_TEST(request.train[0].data_files.front().files == std::vector<std::string>{"a.jsonl"});
  BOOST_TEST(request.train[1].name == "org/set");
  BOOST_TEST(request.train[1].config == "part");
  BOOST_TEST(request.train[1].split == "all");
  BOOST_TEST(request.train[0].fraction.value_or(0.0) == 0.75);
  BOOST_TEST(request.train[1].fraction.value_or(0.0) == 1.0);
}

BOOST_AUTO_TEST_CASE(mixture_of_recipes) {
  const std::string begin =
      "model_name_or_path: m\ndataset_mixture:\n  datasets:\n  - id: a\n    config: c\n    split: "
      "train_sft\n    columns: [messages]\n    weight: 1.0\n  - id: b\n    columns: [messages]\n";
  const launch::Request request = request_of(read_text(begin + "  seed: 0\n  test_split_size: 1000\n"));
  BOOST_TEST(request.refused.empty());
  BOOST_TEST_REQUIRE(request.train.size() == 2U);
  BOOST_TEST(request.train[0].name == "a");
  BOOST_TEST(request.train[0].config == "c");
  BOOST_TEST(request.train[0].split == "train_sft");
  BOOST_TEST(request.train[1].name == "b");
  BOOST_TEST(request.preparation.at("columns") == "messages");
  BOOST_TEST(request.preparation.at("eval_split") == "1000");
  BOOST_TEST(request.preparation.at("shuffle_dataset") == "true");
  const launch::Request other = request_of(read_text(begin + "    weight: 0.5\n  - id: d\n"));
  BOOST_TEST_REQUIRE(other.refused.size() == 2U);
  check_says(other.refused[0], "`weight: 0.5`");
  check_says(other.refused[1], "have other columns");
}

BOOST_AUTO_TEST_CASE(anchors_are_merged_as_yaml_1_1_does) {
  const launch::Request request = request_of(read_text(
      "model_name_or_path: m\ndatasets:\n- &first {path: a, split: one, name: part}\n- <<: *first\n  path: b\n"
      "- <<: [{split: two}, *first]\n"));
  BOOST_TEST_REQUIRE(request.train.size() == 3U);
  BOOST_TEST(request.train[1].name == "b");
  BOOST_TEST(request.train[1].split == "one");
  BOOST_TEST(request.train[2].name == "a");
  BOOST_TEST(request.train[2].split == "two");
  BOOST_TEST(request.train[2].config == "part");
  check_says(refusal([] { static_cast<void>(read_text("a: 1\n<<: b\n")); }), "names no map");
}

BOOST_AUTO_TEST_CASE(names_that_stand_twice_are_refused) {
  check_says(refusal([] { static_cast<void>(read_text("learning_rate: 1\nseed: 2\nlearning_rate: 3\n")); }),
             "`learning_rate` stands twice, the second time in");
  check_says(refusal([] { static_cast<void>(read_text("fsdp_config: {a: 1, a: 2}\n")); }), "`a` stands twice");
}

BOOST_AUTO_TEST_CASE(files_that_say_nothing) {
  check_says(refusal([] { static_cast<void>(read_text("- a\n- b\n")); }), "no map of names and values");
  check_says(refusal([] { static_cast<void>(read_text("a: b\n c: [d\n")); }), "file.yaml:");
}

BOOST_AUTO_TEST_SUITE_END()
