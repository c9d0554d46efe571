// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "config/checks.hpp"
#include "config/keys.hpp"
#include "config/scheduler_kwargs.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/config/values.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
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

namespace {

/// Bounds far above any real model, run or machine, under which parameters, the elements of a layer's activations and
/// the rows of a run are counted in 64 bits.
constexpr std::int64_t max_vocab_size = 1 << 24;
constexpr std::int64_t max_depth = 1 << 12;
constexpr std::int64_t max_positions = std::int64_t{1} << 40;
constexpr std::int64_t max_head_dim = 256;  // as far as the attention kernels go
constexpr int max_axis_size = 1 << 15;
constexpr std::int64_t max_batch = 1 << 20;
constexpr std::int64_t max_steps = std::int64_t{1} << 40;

void require_size(const Config& config, std::int64_t value, const std::string& name, std::int64_t high) {
  require(config, value >= 1 && value <= high, name, fmt::format("from 1 to {}", high));
}

void check_model_sizes(const Config& config) {
  const Model& model = config.model;
  if (model.hidden_size == 0 && model.num_hidden_layers == 0 && model.model_name_or_path.empty()) {
    throw_config_error("no model is given", "there is neither model_name_or_path nor the sizes of one",
                       "give --model_name_or_path FOLDER, a model folder or a name in the hub cache; or hidden_size, "
                       "num_hidden_layers ... under [model] for random weights");
  }
  require_size(config, model.hidden_size, "model.hidden_size", max_width);
  require_size(config, model.num_hidden_layers, "model.num_hidden_layers", max_depth);
  require_size(config, model.num_attention_heads, "model.num_attention_heads", max_depth);
  require_size(config, model.num_key_value_heads, "model.num_key_value_heads", max_depth);
  require_size(config, model.head_dim, "model.head_dim", max_head_dim);
  require_size(config, model.intermediate_size, "model.intermediate_size", max_width);
  require_size(config, model.vocab_size, "model.vocab_size", max_vocab_size);
  require(config, model.max_position_embeddings >= 0 && model.max_position_embeddings <= max_positions,
          "model.max_position_embeddings", fmt::format("from 0 (not known) to {}", max_positions));
  require(config, model.sliding_window >= 0, "model.sliding_window", "0 (none) or more");
  require(config, model.rope_theta > 0, "model.rope_theta", "above 0");
  require(config, model.rms_norm_eps > 0, "model.rms_norm_eps", "above 0");
  require(config, model.initializer_range >= 0, "model.initializer_range", "0 or more");
  require(config, model.llama_4_scaling_beta >= 0, "model.llama_4_scaling_beta", "0 (queries do not grow) or more");
  require(config, model.embedding_multiplier > 0, "model.embedding_multiplier", "above 0");
  require(config, model.attention_multiplier >= 0, "model.attention_multiplier", "0 (1 / sqrt(head_dim)) or more");
  require(config, model.attn_logit_softcapping >= 0, "model.attn_logit_softcapping", "0 (none) or more");
  require(config, model.residual_multiplier > 0, "model.residual_multiplier", "above 0");
  require(config, model.logits_scaling > 0, "model.logits_scaling", "above 0");
  require(config, model.final_logit_softcapping >= 0, "model.final_logit_softcapping", "0 (no cap) or more");
  require(config, model.rope_local_base_freq >= 0, "model.rope_local_base_freq", "0 (that of all layers) or more");
}

void derive_model_sizes(Model& model) {
  const std::int64_t num_heads = model.num_attention_heads;
  if (model.num_key_value_heads == 0) model.num_key_value_heads = num_heads;
  if (model.head_dim != 0 || num_heads < 1) return;
  if (model.hidden_size % num_heads != 0) {
    throw_config_error(
        "model.head_dim cannot be derived",
        fmt::format("hidden_size / num_attention_heads = {} / {} is no whole number", model.hidden_size, num_heads),
        "set head_dim, or sizes that divide");
  }
  model.head_dim = model.hidden_size / num_heads;
}

void check_heads(const Model& model) {
  if (const std::int64_t width = model.num_attention_heads * model.head_dim; width > max_width) {
    throw_config_error("the query heads are too wide together",
                       fmt::format("num_attention_heads x head_dim = {} x {} = {}, above {}", model.num_attention_heads,
                                   model.head_dim, width, max_width),
                       "set fewer or smaller heads");
  }
  if (model.num_attention_heads % model.num_key_value_heads != 0) {
    throw_config_error("query heads cannot share key/value heads evenly",
                       fmt::format("num_attention_heads = {} is no multiple of num_key_value_heads = {}",
                                   model.num_attention_heads, model.num_key_value_heads),
                       fmt::format("set num_key_value_heads to a divisor of {}", model.num_attention_heads));
  }
  if (model.head_dim % 2 != 0) {
    throw_config_error(fmt::format("head_dim = {} is odd", model.head_dim),
                       "the rotary embedding turns pairs of a head's columns",
                       fmt::format("set head_dim = {}", model.head_dim + 1));
  }
}

void check_rotation(const Model& model) {
  const RopeScaling& scaling = model.rope_scaling;
  const std::int64_t rotated = model.rotary_dim();
  if (rotated < 2 || rotated > model.head_dim || rotated % 2 != 0) {
    throw_config_error(fmt::format("`model.partial_rotary_factor = {}` rotates {} of {} dims of a head",
                                   model.partial_rotary_factor, rotated, model.head_dim),
                       "the rotary embedding turns pairs of them", "set it to a share that gives an even number");
  }
  if (model.qk_norm && rotated != model.head_dim) {
    throw_config_error("`model.partial_rotary_factor` does not go with qk_norm",
                       "heads are normed and rotated in one step", "leave out one of the two");
  }
  const std::int64_t num_factors = std::ssize(scaling.short_factor);
  if (scaling.rope_type == RopeType::longrope && num_factors != rotated / 2) {
    throw_config_error(fmt::format("`model.rope_scaling` has {} in short_factor", plural(num_factors, "number")),
                       fmt::format("{} of a head are rotated in pairs", plural(rotated, "dim")),
                       fmt::format("give {}", rotated / 2));
  }
  if (model.block_norms != BlockNorms::pre && model.residual_multiplier != 1.0) {
    throw_config_error("`model.residual_multiplier` does not go with block_norms",
                       "what is normed is not scaled as well in any model", "leave out one of the two");
  }
  if (model.llama_4_scaling_beta != 0 && scaling.rope_type == RopeType::plain) {
    throw_config_error("`model.llama_4_scaling_beta` has no length to grow from",
                       "it counts from original_max_position_embeddings of rope_scaling", "set rope_scaling");
  }
  if (model.rope_local_base_freq != 0 && (model.layer_types.empty() || model.llama_4_scaling_beta != 0)) {
    throw_config_error(
        "`model.rope_local_base_freq` is of no layer",
        model.layer_types.empty() ? "layer_types does not say which slide" : "llama_4_scaling_beta is of all layers",
        "set layer_types, or leave out rope_local_base_freq");
  }
  if (model.qk_norm_all_heads && !model.qk_norm) {
    throw_config_error("`model.qk_norm_all_heads` says how, but qk_norm = false", "q and k have no norms",
                       "set qk_norm = true");
  }
}

/// Lists with an item for each layer.
void check_layers(const Model& model) {
  const auto require_items = [&](const char* name, std::int64_t num_items, const char* what_to_do) {
    if (num_items == 0 || num_items == model.num_hidden_layers) return;
    throw_config_error(fmt::format("`model.{}` has {}", name, plural(num_items, "item")),
                       fmt::format("there are {}", plural(model.num_hidden_layers, "layer")), what_to_do);
  };
  constexpr const char* give_types = "give full_attention or sliding_attention for each layer";
  require_items("layer_types", std::ssize(model.layer_types), give_types);
  for (const std::string& type : model.layer_types) {
    if (type == "full_attention") continue;
    if (type != "sliding_attention") {
      throw_config_error(fmt::format("`model.layer_types` has {}", type), "there are two kinds of attention",
                         give_types);
    }
    if (model.sliding_window == 0) {
      throw_config_error("`model.layer_types` has sliding_attention without a window", "sliding_window = 0",
                         "set sliding_window to the tokens that a token sees");
    }
  }
  const std::vector<int>& rotated = model.no_rope_layers;
  require_items("no_rope_layers", std::ssize(rotated),
                "give 1, or 0 where queries and keys are not rotated, for each layer");
  if (std::ranges::any_of(rotated, [](int item) { return item != 0 && item != 1; })) {
    throw_config_error("`model.no_rope_layers` has other items than 0 and 1", "a layer is rotated, or it is not",
                       "give 1, or 0 where queries and keys are not rotated, for each layer");
  }
  if (model.qk_norm && std::ranges::count(rotated, 0) > 0) {
    throw_config_error("`model.no_rope_layers` has layers without rotation beside qk_norm",
                       "heads are normed and rotated in one step", "leave out one of the two");
  }
}

void check_data(const Config& config) {
  if (!config.data.train_files.empty()) return;
  throw_config_error("`data.train_files` is empty", "there is nothing to train on",
                     "name the shards that sft-prepare wrote, such as data/demo/train-*.h5");
}

/// The rules of the table of keys.
void check_each(const Config& config) {
  for (const Key& key : keys()) require(config, !key.is_allowed || key.is_allowed(config), key.full_name(), key.rule);
}

void check_train(const Config& config) {
  const Train& train = config.train;
  require_size(config, train.per_device_train_batch_size, "train.per_device_train_batch_size", max_batch);
  require_size(config, train.gradient_accumulation_steps, "train.gradient_accumulation_steps", max_batch);
  require(config, train.max_steps >= -1 && train.max_steps <= max_steps, "train.max_steps",
          fmt::format("-1 (num_train_epochs decides), or from 0 to {}", max_steps));
  constexpr double max_epochs = 1e6;
  require(config, train.max_steps >= 0 || (train.num_train_epochs > 0 && train.num_train_epochs <= max_epochs),
          "train.num_train_epochs", "above 0 and at most 1000000 when max_steps is -1");
  require(config, !train.output_dir.empty(), "train.output_dir", "a folder");
  const double smoothing = train.label_smoothing_factor;
  require(config, smoothing >= 0 && smoothing <= 1, "train.label_smoothing_factor", "from 0 (none) to 1");
  if (smoothing > 0 && train.loss_type == LossType::dft) {
    throw_config_error(fmt::format("`train.label_smoothing_factor = {}` does not go with loss_type = dft", smoothing),
                       "smoothed labels are those of the negative log likelihood; TRL ignores them here",
                       "leave one of the two out");
  }
  constexpr double max_alpha = 1e6;
  require(config, train.neftune_noise_alpha >= 0 && train.neftune_noise_alpha <= max_alpha, "train.neftune_noise_alpha",
          fmt::format("from 0 (none) to {}", max_alpha));
  require(config, !config.checkpoint.resume_from_checkpoint.empty(), "checkpoint.resume_from_checkpoint",
          "none, auto or a path");
}

void check_device(const Config& config) {
  const Device& device = config.device;
  constexpr int most_ctas = 64;  // channels of NCCL
  for (const AxisKeys& keys : axis_keys) {
    const int max_ctas = device.*keys.max_ctas;
    require(config, max_ctas >= 0 && max_ctas <= most_ctas, fmt::format("device.{}_max_ctas", name_of(keys.axis)),
            fmt::format("0 (NCCL chooses) to {}", most_ctas));
  }
  if (device.comm == CommChoice::nccl && device.backend == BackendChoice::cpu) {
    throw_config_error("`device.comm = nccl` does not go with backend = cpu", "NCCL sends the memory of GPUs",
                       "set backend = cuda, or leave comm out");
  }
}

void check_activations(const Config& config) {
  const Train& train = config.train;
  if (!train.activation_offload || config.device.backend == BackendChoice::cuda || !train.offload_folder.empty())
    return;
  throw_config_error("`train.activation_offload = true` has no place to write to",
                     "on a CPU activations are offloaded to files, and `train.offload_folder` is empty",
                     "set train.offload_folder to a folder on a fast local disk, or activation_offload = false");
}

void check_optimizer(const Config& config) {
  const Optimizer& optimizer = config.optimizer;
  require(config, optimizer.learning_rate >= 0, "optimizer.learning_rate", "0 or more");
  require(config, optimizer.warmup_steps >= 0 && optimizer.warmup_steps <= double{max_steps}, "optimizer.warmup_steps",
          fmt::format("from 0 to {}", max_steps));
  require(config, optimizer.warmup_ratio >= 0 && optimizer.warmup_ratio <= 1, "optimizer.warmup_ratio", "from 0 to 1");
  require(config, optimizer.weight_decay >= 0, "optimizer.weight_decay", "0 or more");
  require(config, optimizer.adam_beta1 >= 0 && optimizer.adam_beta1 < 1, "optimizer.adam_beta1", "at least 0, below 1");
  require(config, optimizer.adam_beta2 >= 0 && optimizer.adam_beta2 < 1, "optimizer.adam_beta2", "at least 0, below 1");
  require(config, optimizer.adam_epsilon > 0, "optimizer.adam_epsilon", "above 0");
  require(config, optimizer.muon_momentum >= 0 && optimizer.muon_momentum < 1, "optimizer.muon_momentum",
          "at least 0, below 1");
  require(config, optimizer.max_grad_norm >= 0, "optimizer.max_grad_norm", "0 (no clipping) or more");
  const bool has_codes = optimizer.optim == OptimizerKind::adamw_8bit;
  const bool has_means = optimizer.optim == OptimizerKind::adafactor;
  if ((has_codes || has_means) && optimizer.moments_dtype != DType::float32) {
    throw_config_error(fmt::format("`optimizer.moments_dtype = {}` does not go with optim = {}",
                                   write(optimizer.moments_dtype), write(optimizer.optim)),
                       has_codes ? "its moments are in 8 bits, and float32 where those would not do"
                                 : "of a matrix it keeps the means of rows and columns alone, in float32",
                       "leave moments_dtype out, or set optim = adamw_torch");
  }
  check_scheduler(config);
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

std::string name_of_size(const AxisKeys& keys) { return fmt::format("{}_size", name_of(keys.axis)); }

void check_axes(const Config& config, int world_size) {
  const Parallel& parallel = config.parallel;
  SFT_ENSURE(world_size >= 1, "validate() needs a world of at least one rank");
  for (const AxisKeys& keys : axis_keys) {
    const std::string name = "parallel." + name_of_size(keys);
    const int size = parallel.*keys.size;
    if (keys.axis == Axis::dp_shard) {
      require(config, size >= 0 && size <= max_axis_size, name, fmt::format("auto, or from 1 to {}", max_axis_size));
    } else {
      require_size(config, size, name, max_axis_size);
    }
  }
  require(config, parallel.zero_stage >= 0 && parallel.zero_stage <= 3, "parallel.zero_stage", "0, 1, 2 or 3");
  require(config, parallel.ulysses_size >= 0 && parallel.ulysses_size <= max_axis_size, "parallel.ulysses_size",
          fmt::format("auto, or from 1 to {}", max_axis_size));
}

/// "2 x 4 x 1": text_of_axis of each axis that texts name; of an empty text there is no factor.
std::string product_text(const Parallel& parallel, const std::function<std::string(const AxisKeys&)>& text_of_axis) {
  std::vector<std::string> factors;
  for (const AxisKeys& keys : axis_keys) {
    if (!keys.is_always_named && parallel.*keys.size == 1) continue;
    std::string factor = text_of_axis(keys);
    if (!factor.empty()) factors.push_back(std::move(factor));
  }
  return fmt::format("{}", fmt::join(factors, " x "));
}

/// Resolves dp_shard_size = auto and holds the product of the axes against the world.
void fit_mesh(Parallel& parallel, int world_size) {
  const auto equation = [&](const std::string& shard) {
    return product_text(parallel, [&](const AxisKeys& keys) {
      return keys.axis == Axis::dp_shard ? shard : write(parallel.*keys.size);
    });
  };
  const std::string legend = fmt::format(
      " ({})", product_text(parallel, [](const AxisKeys& keys) { return std::string(name_of(keys.axis)); }));
  constexpr std::int64_t far_too_many = std::int64_t{1} << 45;  // times max_axis_size is less than 2^63
  std::int64_t others = 1;
  for (const AxisKeys& keys : axis_keys) {
    if (keys.axis != Axis::dp_shard) others = std::min(others * (parallel.*keys.size), far_too_many);
  }
  const bool others_divide = world_size % others == 0;
  if (parallel.dp_shard_size == 0) {
    if (!others_divide) {
      throw_config_error(fmt::format("a mesh of {} ranks{} cannot fill {}", equation("auto"), legend, world_size),
                         fmt::format("{} is no multiple of {} = {}", world_size, equation(""), others),
                         fmt::format("start `mpirun -np {}`, or choose sizes whose product divides {}",
                                     round_up(std::int64_t{world_size}, others), world_size));
    }
    parallel.dp_shard_size = checked_cast<int>(world_size / others);
    return;
  }
  const std::int64_t product = others * parallel.dp_shard_size;
  if (product == world_size) return;
  throw_config_error("the mesh does not fit the world",
                     fmt::format("{} = {} ranks{}, but there are {}", equation(write(parallel.dp_shard_size)), product,
                                 legend, world_size),
                     fmt::format("start `mpirun -np {}`, or {}", product,
                                 others_divide ? fmt::format("set dp_shard_size = {}", world_size / others)
                                               : fmt::format("choose sizes whose product is {}", world_size)));
}

/// The mesh is resolved.
void check_sharding(const Parallel& parallel) {
  if (parallel.reshard_after_forward != Reshard::to_groups) return;
  const std::string key = fmt::format("`parallel.reshard_after_forward = {}`", parallel.reshard_size);
  if (parallel.zero_stage < 3) {
    throw_config_error(fmt::format("{} has nothing to do", key),
                       fmt::format("with zero_stage = {} parameters stay whole on every rank", parallel.zero_stage),
                       "leave it out, or set zero_stage = 3");
  }
  const int size = num_ranks(parallel.sizes(), fsdp_axes);
  if (size % parallel.reshard_size == 0) return;
  const auto product_of_fsdp = [&](const std::function<std::string(const AxisKeys&)>& text_of_axis) {
    return product_text(parallel,
                        [&](const AxisKeys& keys) { return fsdp_axes.contains(keys.axis) ? text_of_axis(keys) : ""; });
  };
  std::vector<int> divisors;
  for (int n = 2; n <= size; ++n) {
    if (size % n == 0) divisors.push_back(n);
  }
  throw_config_error(fmt::format("{} does not fit the mesh", key),
                     fmt::format("the ranks that share parameters, {} = {} = {}, are no multiple of {}",
                                 product_of_fsdp([](const AxisKeys& keys) { return name_of_size(keys); }),
                                 product_of_fsdp([&](const AxisKeys& keys) { return write(parallel.*keys.size); }),
                                 size, parallel.reshard_size),
                     divisors.empty() ? "set it to true"
                                      : fmt::format("set it to true, false or one of {}", fmt::join(divisors, ", ")));
}

/// The mesh is resolved.
void check_expert_parallel(const Parallel& parallel, const Model& model) {
  if (parallel.ep_size == 1) return;
  const std::string key = fmt::format("`parallel.ep_size = {}`", parallel.ep_size);
  if (model.num_experts == 0) {
    throw_config_error(fmt::format("{} has nothing to do", key), "the model has no experts that its ranks could share",
                       "leave it out; dp_shard_size shares the parameters of any model");
  }
  if (model.num_experts % parallel.ep_size != 0) {
    throw_config_error(
        fmt::format("{} does not fit the model", key),
        fmt::format("num_experts / ep_size = {} / {} is no whole number", model.num_experts, parallel.ep_size),
        fmt::format("choose a divisor of {}", model.num_experts));
  }
  const int sharing = num_ranks(parallel.sizes(), expert_fsdp_axes);
  if (parallel.reshard_after_forward != Reshard::to_groups || sharing % parallel.reshard_size == 0) return;
  throw_config_error(
      fmt::format("{} does not go with reshard_after_forward = {}", key, parallel.reshard_size),
      fmt::format("{} share each expert, dp_shard x sp, which is no multiple of {}", sharing, parallel.reshard_size),
      "set reshard_after_forward to true or false, or to a divisor of dp_shard_size x sp_size");
}

bool tp_fits(const Model& model, std::int64_t tp_size) {
  const std::int64_t num_kv_heads = model.num_key_value_heads;
  return model.num_attention_heads % tp_size == 0 && (num_kv_heads % tp_size == 0 || tp_size % num_kv_heads == 0) &&
         (!model.has_dense_layers() || model.intermediate_size % tp_size == 0) &&
         model.moe_intermediate_size % tp_size == 0 && model.vocab_size >= tp_size;
}

std::string tp_sizes_that_fit(const Model& model) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t tp_size = 1; tp_size <= model.num_attention_heads; ++tp_size) {
    if (tp_fits(model, tp_size)) sizes.push_back(tp_size);
  }
  return fmt::format("{}", fmt::join(sizes, ", "));
}

void check_tensor_parallel(const Model& model, std::int64_t tp_size) {
  const auto refuse = [&](const std::string& problem, const std::string& arithmetic) {
    throw_config_error(problem, arithmetic, fmt::format("set tp_size to one of {}", tp_sizes_that_fit(model)));
  };
  const auto check_divides = [&](std::int64_t size, const std::string& name) {
    if (size % tp_size == 0) return;
    refuse(fmt::format("{} cannot be split over the TP ranks", name),
           fmt::format("{0} / tp_size = {0} / {1} is no whole number", size, tp_size));
  };
  check_divides(model.num_attention_heads, "model.num_attention_heads");
  if (model.has_dense_layers()) check_divides(model.intermediate_size, "model.intermediate_size");
  check_divides(model.moe_intermediate_size, "model.moe_intermediate_size");
  if (model.vocab_size < tp_size) {
    refuse("model.vocab_size cannot be split over the TP ranks",
           fmt::format("each needs a row of the embedding, and vocab_size = {} is below tp_size = {}", model.vocab_size,
                       tp_size));
  }
  const std::int64_t num_kv_heads = model.num_key_value_heads;
  if (num_kv_heads % tp_size != 0 && tp_size % num_kv_heads != 0) {
    refuse("model.num_key_value_heads can neither be split nor replicated evenly over the TP ranks",
           fmt::format("neither {0} / {1} nor {1} / {0} is a whole number", num_kv_heads, tp_size));
  }
}

/// The numbers of SP ranks that can exchange heads.
std::string ulysses_sizes_that_fit(std::int64_t sp_size, std::int64_t num_heads) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= sp_size; ++size) {
    if (sp_size % size == 0 && num_heads % size == 0) sizes.push_back(size);
  }
  return fmt::format("{}", fmt::join(sizes, ", "));
}

/// Holds sp_method and ulysses_size against sp_size and the heads of a TP rank.
void check_sequence_parallel(const Config& config) {
  const Parallel& parallel = config.parallel;
  const std::int64_t sp_size = parallel.sp_size, num_heads = config.model.num_attention_heads / parallel.tp_size;
  const std::string heads_of_rank = fmt::format("num_attention_heads / tp_size = {} / {} = {} heads",
                                                config.model.num_attention_heads, parallel.tp_size, num_heads);
  const std::string sizes = ulysses_sizes_that_fit(sp_size, num_heads);
  const bool is_given = parallel.ulysses_size > 0;
  if (parallel.sp_method == SpMethod::ulysses) {
    if (is_given && parallel.ulysses_size != sp_size) {
      throw_config_error(
          fmt::format("`parallel.ulysses_size = {}` contradicts sp_method = ulysses", parallel.ulysses_size),
          fmt::format("with it all sp_size = {} ranks exchange heads", sp_size),
          "set sp_method = hybrid, or leave ulysses_size out");
    }
    if (num_heads % sp_size != 0) {
      throw_config_error(
          "`parallel.sp_method = ulysses` cannot split the heads over the SP ranks",
          fmt::format("{0}, and {1} / sp_size = {1} / {2} is no whole number", heads_of_rank, num_heads, sp_size),
          fmt::format("set sp_method = hybrid with a ulysses_size of {}, or ring or all_gather", sizes));
    }
  } else if (parallel.sp_method == SpMethod::hybrid) {
    if (is_given && (sp_size % parallel.ulysses_size != 0 || num_heads % parallel.ulysses_size != 0)) {
      throw_config_error(
          fmt::format("`parallel.ulysses_size = {}` does not fit", parallel.ulysses_size),
          fmt::format("it has to divide sp_size = {} and the query heads of a rank: {}", sp_size, heads_of_rank),
          fmt::format("set it to one of {}", sizes));
    }
  } else if (parallel.ulysses_size > 1) {
    throw_config_error(
        fmt::format("`parallel.ulysses_size = {}` would be ignored", parallel.ulysses_size),
        parallel.sp_method == SpMethod::automatic ? "sp_method = auto chooses it" : "this sp_method exchanges no heads",
        "set sp_method = hybrid, or leave ulysses_size out");
  }
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

ValidConfig validate(Config config, int world_size) {
  derive_model_sizes(config.model);
  check_model_sizes(config);
  check_heads(config.model);
  check_rotation(config.model);
  check_layers(config.model);
  check_experts(config);
  check_lora(config);
  check_data(config);
  check_each(config);
  check_train(config);
  check_activations(config);
  check_device(config);
  derive_metric(config);
  check_evaluation(config);
  check_steps_that_fail(config);
  check_optimizer(config);
  check_offload(config);
  check_axes(config, world_size);
  fit_mesh(config.parallel, world_size);
  check_sharding(config.parallel);
  check_expert_parallel(config.parallel, config.model);
  check_tensor_parallel(config.model, config.parallel.tp_size);
  // Tokens always divide: rows are padded to a multiple of tp.
  if (!config.parallel.tp_sequence_parallel) config.parallel.tp_sequence_parallel = config.parallel.tp_size > 1;
  check_sequence_parallel(config);
  if (config.lora.use_peft && config.checkpoint.save_hub_model == HubModel::at_end) {
    throw_config_error("`checkpoint.save_hub_model = true` does not go with lora.use_peft",
                       "such a run leaves its adapters, in output_dir/adapter",
                       "leave it out, and join model and adapters afterwards with sft-convert --merge");
  }
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
