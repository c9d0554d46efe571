// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's files: nested JSON, whose names are laid flat with dots and looked up in a table.

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "launch/yaml.hpp"
#include "sft/config/values.hpp"
#include "sft/core/nearest.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

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
    {"fp16.enabled", "fp16"},
    {"zero_optimization.stage", "zero_stage"},
    {"zero_optimization.offload_optimizer.device", "offload_optimizer_device"},
    {"zero_optimization.offload_optimizer.nvme_path", "offload_optimizer_nvme_path"},
    {"zero_optimization.offload_param.device", "offload_param_device"},
    {"zero_optimization.offload_param.nvme_path", "offload_param_nvme_path"},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "zero3_save_16bit_model"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", "zero3_save_16bit_model"},
    {"zero_optimization.gather_16bit_weights_on_model_save", "zero3_save_16bit_model"},
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
                                          "zero_optimization.stage3_prefetch_bucket_size",
                                          "zero_optimization.stage3_param_persistence_threshold",
                                          "zero_optimization.stage3_max_live_parameters",
                                          "zero_optimization.stage3_max_reuse_distance",
                                          "zero_optimization.memory_efficient_linear",
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
                                          "zero_optimization.offload_optimizer.ratio",
                                          "zero_optimization.offload_param.pin_memory",
                                          "zero_optimization.offload_param.buffer_count",
                                          "zero_optimization.offload_param.buffer_size",
                                          "zero_optimization.offload_param.max_in_cpu",
                                          "optimizer.params.torch_adam",
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
                                          "checkpointing.*"};

bool has_no_effect(const std::string& name) {
  return std::ranges::any_of(no_effect, [&](std::string_view known) {
    return known.ends_with('*') ? name.starts_with(known.substr(0, known.size() - 1)) : name == known;
  });
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

/// "AdamW" -> the optimizer of that name.
void add_optimizer(const std::string& type, const std::string& place, ForeignFile& file) {
  if (type == "AdamW") return add(file, "optim", "adamw_torch", place);
  file.refused.push_back(refusal(fmt::format("sft does not take `optimizer.type = {}` {}", type, place),
                                 "of DeepSpeed's optimizers there is AdamW; its Adam adds the decay elsewhere",
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

void add_value(const YAML::Node& map, const std::string& name, const YAML::Node& node, const std::string& path,
               ForeignFile& file) {
  const std::string place = place_of(node, path), value = text_of(node);
  if (value == "auto" || value == "none") return;  // what the trainer's own options say
  if (name == "optimizer.type") return add_optimizer(value, place, file);
  if (name == "scheduler.type") return add_scheduler(map, value, place, file);
  if (name == "scheduler.params.warmup_type") return;  // with its type
  if (name == "scheduler.params.warmup_min_lr") return add_number_0(name, value, place, file);
  if (name == "optimizer.params.betas" && node.IsSequence() && node.size() == 2) {
    add(file, "adam_beta1", node[0].Scalar(), place);
    return add(file, "adam_beta2", node[1].Scalar(), place);
  }
  if (name == "zero_optimization.zero_hpz_partition_size") {
    if (value != "1") add(file, "reshard_after_forward", value, place);
    return;
  }
  const bool is_off = config::truth_of(value) == false;
  if (name == "bf16.enabled" && is_off) return;  // fp16.enabled, or the trainer's options, say which it is
  if (const auto found = meanings.find(name); found != meanings.end()) return add(file, found->second, value, place);
  if (has_no_effect(name)) return;
  if (is_off || value == "{}") return;  // what is switched off
  refuse_unknown(name, value, place, file);
}

}  // namespace

void add_deepspeed(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  Flat flat;
  flatten(map, "", flat);
  for (const auto& [name, node] : flat) add_value(map, name, node, path, file);
}

void add_deepspeed_file(const std::string& named, const std::string& owner, ForeignFile& file) {
  std::error_code ignored;
  const fs::path beside = fs::path(owner).parent_path() / named;
  const std::string path = fs::exists(beside, ignored) ? beside.string() : named;
  add_deepspeed(load_map(path), path, file);
}

}  // namespace sft::launch
