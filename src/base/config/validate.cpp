// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "config/checks.hpp"
#include "config/keys.hpp"
#include "config/refusals.hpp"
#include "config/scheduler_kwargs.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::config {

void require(const Config& config, bool holds, const std::string& name, const std::string& rule) {
  if (holds) return;
  if (find_key(name)->get(config) == find_key(name)->get(Config{})) {
    throw_config_error(fmt::format("`{}` is not set", name), fmt::format("it has no default and must be {}", rule),
                       fmt::format("set it in the .ini file or as --{}", name));
  }
  throw_config_error(fmt::format("`{} = {}` is out of range", name, find_key(name)->get(config)),
                     fmt::format("it must be {}", rule), "correct it");
}

void require_size(const Config& config, std::int64_t value, const std::string& name, std::int64_t high) {
  require(config, value >= 1 && value <= high, name, fmt::format("from 1 to {}", high));
}

namespace {

/// Bounds far above any real run, under which its rows are counted in 64 bits.
constexpr std::int64_t max_batch = 1 << 20;
constexpr std::int64_t max_steps = std::int64_t{1} << 40;

void check_data(const Config& config) {
  if (!config.data.train_files.empty()) return;
  throw_config_error("`data.train_files` is empty", "there is nothing to train on",
                     "name the shards that sft-prepare wrote, such as data/demo/train-*.h5; a dry run does without: "
                     "--dry-run --max_length N --num_rows N");
}

/// The rules of the table of keys.
void check_each(const Config& config) {
  Refusals refusals;
  for (const Key& key : keys())
    refusals.require(config, !key.is_allowed || key.is_allowed(config), key.full_name(), key.rule);
  refusals.throw_if_any();
}

void check_smoothing(const Train& train) {
  if (train.label_smoothing_factor <= 0 || train.loss_type != LossType::dft) return;
  throw_config_error(
      fmt::format("`train.label_smoothing_factor = {}` does not go with loss_type = dft", train.label_smoothing_factor),
      "smoothed labels are those of the negative log likelihood; TRL ignores them here", "leave one of the two out");
}

void check_train(const Config& config) {
  const Train& train = config.train;
  Refusals refusals;
  refusals.require_size(config, train.per_device_train_batch_size, "train.per_device_train_batch_size", max_batch);
  refusals.require_size(config, train.gradient_accumulation_steps, "train.gradient_accumulation_steps", max_batch);
  refusals.require(config, train.max_steps >= -1 && train.max_steps <= max_steps, "train.max_steps",
                   fmt::format("-1 (num_train_epochs decides), or from 0 to {}", max_steps));
  constexpr double max_epochs = 1e6;
  refusals.require(config, train.max_steps >= 0 || (train.num_train_epochs > 0 && train.num_train_epochs <= max_epochs),
                   "train.num_train_epochs", "above 0 and at most 1000000 when max_steps is -1");
  refusals.require(config, !train.output_dir.empty(), "train.output_dir", "a folder");
  const double smoothing = train.label_smoothing_factor;
  refusals.require(config, smoothing >= 0 && smoothing <= 1, "train.label_smoothing_factor", "from 0 (none) to 1");
  constexpr double max_alpha = 1e6;
  refusals.require(config, train.neftune_noise_alpha >= 0 && train.neftune_noise_alpha <= max_alpha,
                   "train.neftune_noise_alpha", fmt::format("from 0 (none) to {}", max_alpha));
  refusals.require(config, !config.checkpoint.resume_from_checkpoint.empty(), "checkpoint.resume_from_checkpoint",
                   "none, auto or a path");
  refusals.collect([&] { check_smoothing(train); });
  refusals.throw_if_any();
}

void check_comm(const Device& device) {
  if (device.comm != CommChoice::nccl || device.backend != BackendChoice::cpu) return;
  throw_config_error("`device.comm = nccl` does not go with backend = cpu", "NCCL sends the memory of GPUs",
                     "set backend = cuda, or leave comm out");
}

void check_device(const Config& config) {
  if (config.device.matmul_autotune && config.device.backend == BackendChoice::cpu) {
    throw_config_error("`device.matmul_autotune = true` does not go with backend = cpu", "it is for products on GPUs",
                       "set backend = cuda, or leave device.matmul_autotune out");
  }
  if (config.device.cuda_graphs == true && config.device.backend == BackendChoice::cpu) {
    throw_config_error("`device.cuda_graphs = true` does not go with backend = cpu", "it is for launches on GPUs",
                       "set backend = cuda, or leave device.cuda_graphs out");
  }
  const Device& device = config.device;
  Refusals refusals;
  constexpr int most_ctas = 64;  // channels of NCCL
  for (const AxisKeys& keys : axis_keys) {
    const int max_ctas = device.*keys.max_ctas;
    refusals.require(config, max_ctas >= 0 && max_ctas <= most_ctas,
                     fmt::format("device.{}_max_ctas", name_of(keys.axis)),
                     fmt::format("0 (NCCL chooses) to {}", most_ctas));
  }
  refusals.collect([&] { check_comm(device); });
  refusals.collect([&] { check_attention(config); });
  refusals.throw_if_any();
}

void check_activations(const Config& config) {
  const Train& train = config.train;
  const bool is_gpu = config.device.backend == BackendChoice::cuda,
             asks_for_files = train.activation_offload_to == ActivationPlace::nvme;
  if (!train.activation_offload || !train.offload_folder.empty() || (is_gpu && !asks_for_files)) return;
  throw_config_error("`train.activation_offload = true` has no place to write to",
                     fmt::format("{} activations are offloaded to files, and `train.offload_folder` is empty",
                                 asks_for_files ? "with `activation_offload_to = nvme`" : "on a CPU"),
                     "set train.offload_folder to a folder on a fast local disk, or activation_offload = false");
}

void check_moments(const Optimizer& optimizer) {
  const bool has_codes = optimizer.optim == OptimizerKind::adamw_8bit;
  const bool has_means = optimizer.optim == OptimizerKind::adafactor;
  if ((has_codes || has_means) && optimizer.moments_dtype != DType::float32) {
    throw_config_error(fmt::format("`optimizer.moments_dtype = {}` does not go with optim = {}",
                                   write(optimizer.moments_dtype), write(optimizer.optim)),
                       has_codes ? "its moments are in 8 bits, and float32 where those would not do"
                                 : "of a matrix it keeps the means of rows and columns alone, in float32",
                       "leave moments_dtype out, or set optim = adamw_torch");
  }
}

void check_optimizer(const Config& config) {
  const Optimizer& optimizer = config.optimizer;
  Refusals refusals;
  refusals.require(config, optimizer.learning_rate >= 0, "optimizer.learning_rate", "0 or more");
  refusals.require(config, optimizer.warmup_steps >= 0 && optimizer.warmup_steps <= double{max_steps},
                   "optimizer.warmup_steps", fmt::format("from 0 to {}", max_steps));
  refusals.require(config, optimizer.warmup_ratio >= 0 && optimizer.warmup_ratio <= 1, "optimizer.warmup_ratio",
                   "from 0 to 1");
  refusals.require(config, optimizer.weight_decay >= 0, "optimizer.weight_decay", "0 or more");
  refusals.require(config, optimizer.adam_beta1 >= 0 && optimizer.adam_beta1 < 1, "optimizer.adam_beta1",
                   "at least 0, below 1");
  refusals.require(config, optimizer.adam_beta2 >= 0 && optimizer.adam_beta2 < 1, "optimizer.adam_beta2",
                   "at least 0, below 1");
  refusals.require(config, optimizer.adam_epsilon > 0, "optimizer.adam_epsilon", "above 0");
  refusals.require(config, optimizer.muon_momentum >= 0 && optimizer.muon_momentum < 1, "optimizer.muon_momentum",
                   "at least 0, below 1");
  refusals.require(config, optimizer.max_grad_norm >= 0, "optimizer.max_grad_norm", "0 (no clipping) or more");
  refusals.collect([&] { check_moments(optimizer); });
  refusals.collect([&] { check_scheduler(config); });
  refusals.throw_if_any();
}

void check_offload(const Config& config) {
  const Train& train = config.train;
  const bool uses_files = train.offload_optimizer == Offload::nvme || train.offload_parameters == Offload::nvme;
  if (uses_files && train.offload_folder.empty()) {
    throw_config_error(
        fmt::format("`train.{} = nvme` has no folder",
                    train.offload_optimizer == Offload::nvme ? "offload_optimizer" : "offload_parameters"),
        "its files lie in train.offload_folder, which is empty",
        "set offload_folder to a folder on a fast disk of each node");
  }
  if (train.offload_parameters == Offload::nvme) require_master_weights(train);
}

void check_saved_model(const Config& config) {
  if (!config.lora.use_peft || config.checkpoint.save_hub_model != HubModel::at_end) return;
  throw_config_error("`checkpoint.save_hub_model = true` does not go with lora.use_peft",
                     "such a run leaves its adapters, in output_dir/adapter",
                     "leave it out, and join model and adapters afterwards with sft-convert --merge");
}

void check_vocabulary(const Model& model, std::int64_t vocab_size, const std::string& source) {
  if (vocab_size <= model.vocab_size) return;
  throw_config_error(
      fmt::format("the model cannot read {}", source),
      fmt::format("its tokens run to vocab_size = {}, but model.vocab_size = {}", vocab_size, model.vocab_size),
      fmt::format("set vocab_size to {} or more", vocab_size));
}

}  // namespace

void require_master_weights(const Train& train) {
  if (train.precision == Precision::bf16) return;
  const bool is_fp32 = train.precision == Precision::fp32, is_host = train.offload_parameters == Offload::host;
  const std::string place = write(train.offload_parameters);
  throw_config_error(
      fmt::format("`train.offload_parameters = {}` does not go with precision = {}", place, write(train.precision)),
      fmt::format("it moves the float32 master weights away, 4 bytes a parameter beside the 2 that precision = bf16 "
                  "computes with; here the {} bytes a parameter are computed with, and there are no others",
                  is_fp32 ? 4 : 2),
      fmt::format("set {}precision = bf16, or offload_parameters = none; offload_optimizer = {} goes with both",
                  is_host ? "parallel.zero_stage = 3, which moves those too, or " : "", place));
}

ValidConfig validate(Config config, int world_size, CheckModules check_modules) {
  // 1. What can be judged by itself: all of it at once
  Refusals refusals;
  refusals.collect([&] {
    check_model(config);
    check_experts(config);
    check_routers(config);
    Refusals of_adapters;
    of_adapters.collect([&] { check_lora(config); });
    if (check_modules != nullptr) of_adapters.collect([&] { check_modules(config); });
    of_adapters.throw_if_any();
  });
  for (const auto check : {check_data, check_each, check_axes, check_train, check_activations, check_device}) {
    refusals.collect([&] { check(config); });
  }
  refusals.collect([&] {
    derive_metric(config);
    check_evaluation(config);
  });
  for (const auto check : {check_steps_that_fail, check_optimizer, check_offload}) {
    refusals.collect([&] { check(config); });
  }
  refusals.throw_if_any();

  // 2. What follows from several of these
  refusals.collect([&] {
    check_parallel(config, world_size);
    check_four_bits(config);
    check_fp8(config);
    check_head_groups(config);
  });
  refusals.collect([&] { check_saved_model(config); });
  refusals.throw_if_any();
  if (config.checkpoint.save_hub_model == HubModel::automatic) {
    const bool began_from_model = !config.model.model_name_or_path.empty() && !config.lora.use_peft;
    config.checkpoint.save_hub_model = began_from_model ? HubModel::at_end : HubModel::never;
  }
  return {std::move(config), world_size};
}

ValidConfig validate(Model model) {
  Config config;
  config.model = std::move(model);
  config.data.train_files = {"none"};
  return validate(std::move(config), 1);
}

ValidConfig ValidConfig::with(const std::function<void(Config&)>& change) const {
  Config changed = config_;
  change(changed);
  return validate(std::move(changed), world_size_);
}

void validate_length(const Model& model, std::int64_t max_length, const std::string& source) {
  const RopeScaling& scaling = model.rope_scaling;
  const bool changes = scaling.rope_type == RopeType::dynamic || scaling.rope_type == RopeType::longrope;
  if (changes && max_length > scaling.original_max_position_embeddings) {
    throw_config_error(
        fmt::format("{} may be longer than the rotary embedding keeps its frequencies for", source),
        fmt::format("{} tokens, but with rope_type = {} they change, with the longest text so far, beyond "
                    "original_max_position_embeddings = {}",
                    max_length, scaling.rope_type == RopeType::dynamic ? "dynamic" : "longrope",
                    scaling.original_max_position_embeddings),
        "use at most that many tokens (--max_length of sft-prepare, --max_new_tokens of sft-generate), or a "
        "model with rope_type yarn");
  }
}

void validate_data(const ValidConfig& config, std::int64_t max_length, std::int64_t vocab_size,
                   const std::string& source) {
  validate_length(config->model, max_length, source);
  const std::int64_t batch = config->train.per_device_train_batch_size;
  const int sp_size = config->parallel.sp_size;
  const std::int64_t tokens =
      sequence::padded_row_length(batch * max_length, sp_size, config->parallel.token_slices()) / sp_size;
  constexpr std::int64_t max_tokens = std::numeric_limits<std::int32_t>::max();
  if (max_length > max_tokens) {
    throw_config_error(fmt::format("rows of {} are too long", source),
                       fmt::format("{} tokens, but positions are counted up to {}", max_length, max_tokens),
                       "prepare the data with a smaller --max_length");
  }
  if (tokens > max_tokens) {
    throw_config_error("a micro-batch has too many tokens on a rank",
                       fmt::format("per_device_train_batch_size x max_length / sp_size = {} x {} / {} = {}, above {}",
                                   batch, max_length, sp_size, tokens, max_tokens),
                       "set a smaller per_device_train_batch_size, and gradient_accumulation_steps instead");
  }
  constexpr std::int64_t max_choices = std::int64_t{1} << 20;  // as far as the ops go
  if (const std::int64_t choices = config->model.num_experts_per_tok; tokens * choices > max_choices) {
    throw_config_error("a micro-batch has too many choices of experts on a rank",
                       fmt::format("{} tokens x num_experts_per_tok = {}, above {}", tokens, choices, max_choices),
                       "set a smaller per_device_train_batch_size, or a larger sp_size");
  }
  check_vocabulary(config->model, vocab_size, source);
}

void validate_eval_data(const ValidConfig& config, std::int64_t max_length, std::int64_t vocab_size,
                        const std::string& source, std::int64_t train_max_length) {
  if (max_length > train_max_length) {
    throw_config_error(
        fmt::format("rows of {} are longer than those that are trained on", source),
        fmt::format(
            "their max_length is {}, that of data.train_files {}, and evaluation works in the memory of training",
            max_length, train_max_length),
        fmt::format("prepare the data for evaluation with --max_length {}", train_max_length));
  }
  check_vocabulary(config->model, vocab_size, source);
}

}  // namespace sft::config
