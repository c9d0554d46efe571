// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's files: nested JSON, whose names are laid flat with dots and looked up in a table.

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>

#include "launch/yaml.hpp"
#include "sft/config/values.hpp"
#include "sft/core/nearest.hpp"

namespace sft::launch {

namespace {

/// What a name means: that of a setting; nothing where it has no effect here.
const std::map<std::string, const char*, std::less<>> meanings{
    {"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
    {"train_batch_size", "train_batch_size"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_clipping", "max_grad_norm"},
    {"communication_data_type", "communication_data_type"},
    {"sequence_parallel_size", "sp_size"},
    {"tensor_parallel.autotp_size", "tp_size"},
    {"bf16.enabled", "bf16"},
    {"bfloat16.enabled", "bf16"},
    {"fp16.enabled", "fp16"},
    {"zero_optimization.stage", "zero_stage"},
    {"zero_optimization.offload_optimizer.device", "offload_optimizer_device"},
    {"zero_optimization.offload_optimizer.nvme_path", "offload_optimizer_nvme_path"},
    {"zero_optimization.offload_param.device", "offload_param_device"},
    {"zero_optimization.offload_param.nvme_path", "offload_param_nvme_path"},
    {"zero_optimization.gather_16bit_weights_on_model_save", "zero3_save_16bit_model"},
    {"zero_optimization.gather_fp16_weights_on_model_save", "zero3_save_16bit_model"},
    {"optimizer.type", "optim"},
    {"optimizer.params.lr", "learning_rate"},
    {"optimizer.params.eps", "adam_epsilon"},
    {"optimizer.params.weight_decay", "weight_decay"},
    {"scheduler.type", "lr_scheduler_type"},
    {"scheduler.params.warmup_num_steps", "warmup_steps"},
};

/// What changes neither rows nor numbers: how DeepSpeed itself works, and what it prints.
constexpr std::string_view no_effect[] = {"zero_optimization.overlap_comm",
                                          "zero_optimization.contiguous_gradients",
                                          "zero_optimization.reduce_bucket_size",
                                          "zero_optimization.allgather_bucket_size",
                                          "zero_optimization.allgather_partitions",
                                          "zero_optimization.reduce_scatter",
                                          "zero_optimization.sub_group_size",
                                          "zero_optimization.round_robin_gradients",
                                          "zero_optimization.prefetch_bucket_size",
                                          "zero_optimization.param_persistence_threshold",
                                          "zero_optimization.model_persistence_threshold",
                                          "zero_optimization.max_live_parameters",
                                          "zero_optimization.max_reuse_distance",
                                          "zero_optimization.module_granularity_threshold",
                                          "zero_optimization.use_all_reduce_for_fetch_params",
                                          "zero_optimization.allgather_sequential",
                                          "zero_optimization.partition_stream_chunk_size",
                                          "zero_optimization.use_multi_rank_bucket_allreduce",
                                          "zero_optimization.memory_efficient_linear",
                                          "zero_optimization.legacy_stage1",
                                          "zero_optimization.pipeline_loading_checkpoint",
                                          "zero_optimization.override_module_apply",
                                          "zero_optimization.log_trace_cache_warnings",
                                          "zero_optimization.enable_sanity_checks",
                                          "zero_optimization.save_muon_momentum_buffer_in_memory",
                                          "zero_optimization.leaf_module.*",
                                          "zero_optimization.cpu_offload_use_pin_memory",
                                          "zero_optimization.load_from_fp32_weights",
                                          "zero_optimization.elastic_checkpoint",
                                          "zero_optimization.ignore_unused_parameters",
                                          "zero_optimization.offload_optimizer.pin_memory",
                                          "zero_optimization.offload_optimizer.buffer_count",
                                          "zero_optimization.offload_optimizer.fast_init",
                                          "zero_optimization.offload_optimizer.pipeline_read",
                                          "zero_optimization.offload_optimizer.pipeline_write",
                                          "zero_optimization.offload_optimizer.pipeline",
                                          "zero_optimization.offload_optimizer.convert_grad_on_cpu",
                                          "zero_optimization.offload_optimizer.cpuadam_cores_perc",
                                          "zero_optimization.offload_optimizer.super_offload",
                                          "zero_optimization.offload_param.pin_memory",
                                          "zero_optimization.offload_param.buffer_count",
                                          "zero_optimization.offload_param.buffer_size",
                                          "zero_optimization.offload_param.max_in_cpu",
                                          "optimizer.params.torch_adam",
                                          "optimizer.params.fused",
                                          "optimizer.params.bias_correction",
                                          "scheduler.params.total_num_steps",
                                          "scheduler.params.warmup_max_lr",
                                          "steps_per_print",
                                          "wall_clock_breakdown",
                                          "dump_state",
                                          "prescale_gradients",
                                          "memory_breakdown",
                                          "zero_allow_untested_optimizer",
                                          "zero_force_ds_cpu_optimizer",
                                          "aio.*",
                                          "activation_checkpointing.*",
                                          "tensorboard.*",
                                          "wandb.*",
                                          "csv_monitor.*",
                                          "flops_profiler.*",
                                          "comms_logger.*",
                                          "checkpoint.*",
                                          "fp16.*",
                                          "bf16.*",
                                          "monitor_config.*",
                                          "bfloat16.*",
                                          "elasticity.enabled",
                                          "vocabulary_size",
                                          "checkpointing.*"};

bool has_no_effect(const std::string& name) {
  return std::ranges::any_of(no_effect, [&](std::string_view known) {
    return known.ends_with('*') ? name.starts_with(known.substr(0, known.size() - 1)) : name == known;
  });
}

/// The name without the `stage3_` that DeepSpeed's fields of stage 3 may have in front.
std::string without_stage(const std::string& name) {
  constexpr std::string_view block = "zero_optimization.", stage = "stage3_";
  if (!name.starts_with(block) || !std::string_view(name).substr(block.size()).starts_with(stage)) return name;
  return std::string(block) + name.substr(block.size() + stage.size());
}

using Flat = std::vector<std::pair<std::string, YAML::Node>>;

void flatten(const YAML::Node& map, const std::string& prefix, Flat& flat) {
  for (const auto& entry : map) {
    const std::string name = prefix + entry.first.as<std::string>();
    if (entry.second.IsMap()) {
      flatten(entry.second, fmt::format("{}.", name), flat);
    } else {
      flat.emplace_back(name, entry.second);
    }
  }
}

void refuse_unknown(const std::string& name, const std::string& value, const std::string& place, ForeignFile& file) {
  std::vector<std::string> known;
  for (const auto& [other, meaning] : meanings) known.push_back(other);
  for (const std::string_view other : no_effect) known.emplace_back(other);
  const std::string guess = nearest(name, known);
  file.refused.push_back(
      refusal(fmt::format("sft does not take `{} = {}` {}", name, value, place),
              "nothing here does what DeepSpeed does with it",
              guess.empty() ? "leave it out" : fmt::format("leave it out; or did you mean {}?", guess)));
}

/// "AdamW" -> the optimizer of that name. DeepSpeed's Adam is the same unless adam_w_mode is off.
void add_optimizer(const YAML::Node& map, const std::string& type, const std::string& place, ForeignFile& file) {
  const YAML::Node params = map["optimizer"]["params"];
  const bool is_plain_adam =
      type == "Adam" && params && params["adam_w_mode"] && config::truth_of(text_of(params["adam_w_mode"])) == false;
  if (type == "AdamW" || (type == "Adam" && !is_plain_adam)) return add(file, "optim", "adamw_torch", place);
  file.refused.push_back(refusal(fmt::format("sft does not take `optimizer.type = {}` {}", type, place),
                                 "of DeepSpeed's optimizers there is AdamW; Adam without adam_w_mode adds the decay to "
                                 "the gradient",
                                 "leave `optimizer` out and give --optim"));
}

/// The schedules of DeepSpeed that are linear throughout.
void add_scheduler(const YAML::Node& map, const std::string& type, const std::string& place, ForeignFile& file) {
  const YAML::Node params = map["scheduler"]["params"];
  const bool is_linear = params && params["warmup_type"] && params["warmup_type"].Scalar() == "linear";
  const bool is_known = type == "WarmupDecayLR" || type == "WarmupLR";
  if (is_known && is_linear) {
    return add(file, "lr_scheduler_type", type == "WarmupLR" ? "constant_with_warmup" : "linear", place);
  }
  file.refused.push_back(refusal(fmt::format("sft does not take `scheduler.type = {}` {}", type, place),
                                 is_known ? "without warmup_type = linear the rate rises with the logarithm of the step"
                                          : "there is no such schedule",
                                 "leave `scheduler` out and give --lr_scheduler_type and --warmup_steps"));
}

void add_number_0(const std::string& name, const std::string& value, const std::string& place, ForeignFile& file) {
  if (value == "0" || value == "0.0" || value == "0.") return;
  file.refused.push_back(refusal(fmt::format("sft does not take `{} = {}` {}", name, value, place),
                                 "the rate of the warm-up begins at 0", "leave it out"));
}

/// Adds the settings that an old name of an offload stands for.
void add_cpu_offload(const std::string& name, const std::string& value, const std::string& place, ForeignFile& file) {
  const bool is_of_parameters = name.ends_with("_param");
  if (config::truth_of(value) != true) return;
  add(file, is_of_parameters ? "offload_param_device" : "offload_optimizer_device", "cpu", place);
}

/// A number that has no effect as long as it is this one.
void require_neutral(const std::string& name, const std::string& value, const char* neutral, const char* why,
                     const std::string& place, ForeignFile& file) {
  double number = 0, expected = 0;
  config::read(neutral, expected);
  try {
    config::read(value, number);
    if (number == expected) return;
  } catch (const std::invalid_argument&) {  // no number at all
  }
  file.refused.push_back(refusal(fmt::format("sft does not take `{} = {}` {}", name, value, place), why,
                                 fmt::format("leave it out, or write {}", neutral)));
}

void add_value(const YAML::Node& map, const std::string& written, const YAML::Node& node, const std::string& path,
               ForeignFile& file) {
  const std::string place = place_of(node, path), value = text_of(node), name = without_stage(written);
  if (value == "auto" || value == "none") return;  // what the trainer's own options say
  if (name == "optimizer.type") return add_optimizer(map, value, place, file);
  if (name == "optimizer.params.adam_w_mode") return;  // with its type
  if (name == "scheduler.type") return add_scheduler(map, value, place, file);
  if (name == "scheduler.params.warmup_type") return;  // with its type
  if (name == "scheduler.params.warmup_min_lr") return add_number_0(name, value, place, file);
  if (name == "optimizer.params.betas" && node.IsSequence() && node.size() == 2) {
    add(file, "adam_beta1", node[0].Scalar(), place);
    return add(file, "adam_beta2", node[1].Scalar(), place);
  }
  if (name == "zero_optimization.cpu_offload" || name == "zero_optimization.cpu_offload_param") {
    return add_cpu_offload(name, value, place, file);
  }
  if (name == "zero_optimization.offload_optimizer.ratio") {
    return require_neutral(name, value, "1.0", "all of the optimizer's state lies where the device says", place, file);
  }
  if (name == "zero_optimization") return add(file, "zero_stage", config::truth_of(value) == true ? "1" : "0", place);
  if (name == "gradient_predivide_factor") {
    return require_neutral(name, value, "1.0", "gradients are divided once, after they were summed in float32", place,
                           file);
  }
  if (name == "zero_optimization.mics_shard_size") {
    if (value == "-1") return;
    file.refused.push_back(refusal(fmt::format("sft does not take `{} = {}` {}", name, value, place),
                                   "its name here is dp_shard_size, the ranks that share one copy of the state",
                                   "write parallel.dp_shard_size, and dp_replicate_size for the copies"));
    return;
  }
  if (name == "zero_optimization.zero_hpz_partition_size") {
    if (value != "1") add(file, "reshard_after_forward", value, place);
    return;
  }
  const bool is_off = config::truth_of(value) == false;
  if ((name == "bf16.enabled" || name == "bfloat16.enabled") && is_off) {
    return add(file, "deepspeed_bf16_enabled", "false", place);
  }
  if (const auto found = meanings.find(name); found != meanings.end()) return add(file, found->second, value, place);
  if (has_no_effect(name)) return;
  if (is_off || value == "{}") return;  // what is switched off
  refuse_unknown(written, value, place, file);
}

}  // namespace

void add_deepspeed(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  Flat flat;
  flatten(map, "", flat);
  for (const auto& [name, node] : flat) add_value(map, name, node, path, file);
  const YAML::Node zero = map["zero_optimization"];
  const bool has_stage = zero && (!zero.IsMap() || zero["stage"]);
  if (!has_stage) add(file, "zero_stage", "0", place_of(map, path));  // DeepSpeed's default
}

void add_deepspeed_file(const std::string& named, const std::string& owner, ForeignFile& file) {
  const Block block = block_of(named, owner);
  if (block.map.IsMap()) return add_deepspeed(block.map, block.path, file);
  file.refused.push_back(refusal_of_block("deepspeed", named, owner.empty() ? "on the command line" : "in " + owner));
}

}  // namespace sft::launch
