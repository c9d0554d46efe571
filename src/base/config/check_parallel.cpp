// SPDX-License-Identifier: Apache-2.0
// Checks of [parallel] against the world and the model.
#include <fmt/format.h>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/checks.hpp"
#include "config/keys.hpp"
#include "config/refusals.hpp"
#include "sft/config/values.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"

namespace sft::config {

namespace {

constexpr int max_axis_size = 1 << 15;  // far above any machine

std::string name_of_size(const AxisKeys& keys) { return fmt::format("{}_size", name_of(keys.axis)); }

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

/// What to do: `name = 1` where there is one size, else one of them.
std::string set_to_one_of(const std::string& name, const std::vector<std::int64_t>& sizes) {
  if (sizes.size() == 1) return fmt::format("set {} = {}", name, sizes.front());
  return fmt::format("set {} to one of {}", name, fmt::join(sizes, ", "));
}

std::vector<std::int64_t> tp_sizes_that_fit(const Model& model) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t tp_size = 1; tp_size <= model.num_attention_heads; ++tp_size) {
    if (tp_fits(model, tp_size)) sizes.push_back(tp_size);
  }
  return sizes;
}

void check_tensor_parallel(const Model& model, std::int64_t tp_size) {
  const auto refuse = [&](const std::string& problem, const std::string& arithmetic) {
    throw_config_error(problem, arithmetic, set_to_one_of("tp_size", tp_sizes_that_fit(model)));
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

}  // namespace

void check_axes(const Config& config) {
  const Parallel& parallel = config.parallel;
  Refusals refusals;
  for (const AxisKeys& keys : axis_keys) {
    const std::string name = "parallel." + name_of_size(keys);
    const int size = parallel.*keys.size;
    if (keys.axis == Axis::dp_shard) {
      refusals.require(config, size >= 0 && size <= max_axis_size, name,
                       fmt::format("auto, or from 1 to {}", max_axis_size));
    } else {
      refusals.require_size(config, size, name, max_axis_size);
    }
  }
  refusals.require(config, parallel.zero_stage >= 0 && parallel.zero_stage <= 3, "parallel.zero_stage", "0, 1, 2 or 3");
  refusals.require(config, parallel.ulysses_size >= 0 && parallel.ulysses_size <= max_axis_size,
                   "parallel.ulysses_size", fmt::format("auto, or from 1 to {}", max_axis_size));
  refusals.throw_if_any();
}

void check_parallel(Config& config, int world_size) {
  SFT_ENSURE(world_size >= 1, "validate() needs a world of at least one rank");
  fit_mesh(config.parallel, world_size);
  check_sharding(config.parallel);
  check_expert_parallel(config.parallel, config.model);
  check_tensor_parallel(config.model, config.parallel.tp_size);
  // Tokens always divide: rows are padded to a multiple of tp.
  if (!config.parallel.tp_sequence_parallel) config.parallel.tp_sequence_parallel = config.parallel.tp_size > 1;
  check_sequence_parallel(config);
}

}  // namespace sft::config
