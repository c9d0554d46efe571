// SPDX-License-Identifier: Apache-2.0
#include "settle_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/ops/attention_trial.hpp"
#include "sft/rank/machine.hpp"

namespace sft::apps {

namespace {

/// Enough for several blocks of every kernel, little beside the memory of a run.
constexpr std::int64_t most_tokens_of_trial = 2048;

bool is_cut(const config::Parallel& parallel) { return parallel.attention_method().ulysses_size != parallel.sp_size; }

ops::TrialKeys keys_of(const config::Parallel& parallel) {
  if (!is_cut(parallel)) return ops::TrialKeys::own;
  const bool gathers = parallel.sp_method == config::SpMethod::all_gather;
  return gathers ? ops::TrialKeys::gathered : ops::TrialKeys::rounds;
}

/// What one rank's attention is called with where it is local, once heads are exchanged, in a ring, or with gathered
/// keys, without windows: with the heads of a group, where there are groups.
ops::AttentionSizes sizes_of(const config::Config& config, std::int64_t tokens, bool has_backward) {
  const config::Model& model = config.model;
  const ops::TrialKeys keys = keys_of(config.parallel);
  const std::int64_t ranks = std::int64_t{config.parallel.tp_size} * config.parallel.attention_method().ulysses_size;
  const std::int64_t q_per_kv = model.num_attention_heads / model.num_key_value_heads;
  std::int64_t q_heads = model.num_attention_heads / ranks / config.train.attention_head_groups.value_or(1);
  std::int64_t kv_heads = q_heads / std::gcd(q_heads, q_per_kv);
  tokens = std::clamp<std::int64_t>(tokens, 1, most_tokens_of_trial);
  if (keys == ops::TrialKeys::gathered) {  // those of some keys at a time
    const std::int64_t at_once = std::max<std::int64_t>(1, kv_heads / config.parallel.sp_size);
    q_heads = q_heads / kv_heads * at_once;
    kv_heads = at_once;
    tokens += tokens % 2;
  }
  const auto multiplier = static_cast<float>(model.attention_multiplier);
  return {.tokens = tokens,
          .q_heads = q_heads,
          .kv_heads = kv_heads,
          .head_dim = model.head_dim,
          .scale = multiplier != 0.0F ? multiplier : 1.0F / std::sqrt(static_cast<float>(model.head_dim)),
          .has_backward = has_backward,
          .keys = keys,
          .has_sinks = model.attention_sinks};
}

/// Makes all trials: all have to agree, and passes that a library does for some count.
ops::AttentionTrial try_all(device::Device& device, const std::vector<ops::AttentionSizes>& trials,
                            ops::AttentionKernels kernels) {
  ops::AttentionTrial all;
  for (const ops::AttentionSizes& sizes : trials) {
    const ops::AttentionTrial trial = ops::try_attention(device, sizes, kernels);
    if (all.difference.empty()) all.difference = trial.difference;
    all.has_forward = all.has_forward || trial.has_forward;
    all.has_backward = all.has_backward || trial.has_backward;
  }
  return all;
}

config::ValidConfig with_attention(const config::ValidConfig& config, config::AttentionChoice choice) {
  return config.with([choice](config::Config& keys) { keys.device.attention = choice; });
}
config::ValidConfig by_kernels_for_all(const config::ValidConfig& config) {
  return with_attention(config, config::AttentionChoice::own);
}

/// Why this program's kernels run the backward pass where cuDNN was to.
std::string why_no_backward(const config::Config& config, const ops::AttentionLibrary& library) {
  const std::int64_t head_dim = config.model.head_dim;
  if (!ops::bounds_backward_of_library(head_dim)) {
    return fmt::format("cuDNN's memory for heads of {} numbers, no multiple of 16, is not bounded by the tokens",
                       head_dim);
  }
  const bool has_pass = library.computes_backward(rank::attention_kernels(config.device, config.model));
  return has_pass ? "cuDNN refuses it here" : "cuDNN repeats its bits from 9.25 on";
}

constexpr const char* no_forward_of_sinks = "cuDNN's forward pass takes no sinks";

/// This program's kernels for all GPUs in the place of cuDNN.
config::ValidConfig without_library(const config::ValidConfig& config, const std::string& why) {
  log_warning(fmt::format("attention: this program's kernels, as {}", why));
  return by_kernels_for_all(config);
}

/// The first rank's text that is not empty. Collective.
std::string first_of(const std::string& text, const comm::Group& world) {
  const std::vector<std::string> all = world.all_gather(text);
  const auto found = std::ranges::find_if(all, [](const std::string& one) { return !one.empty(); });
  return found == all.end() ? "" : *found;
}

/// Whether it is so on every rank. Collective.
bool on_all(bool is_so, const comm::Group& world) {
  std::array<std::int64_t, 1> num_others{is_so ? 0 : 1};
  world.sum(std::span<std::int64_t>(num_others));
  return num_others[0] == 0;
}

void require_gpu(const device::Device& device, config::AttentionChoice choice, const char* whose) {
  if (device.kind() == device::Kind::cuda) return;
  throw_config_error(fmt::format("`device.attention = {}` cannot be done", config::write(choice)),
                     fmt::format("the ranks compute on CPUs, and {} on GPUs", whose),
                     "leave device.attention out, or set backend = cuda to see what is missing");
}

/// settle_attention for the kernels of one kind of GPU.
config::ValidConfig settle_own(const config::ValidConfig& config, const config::AttentionOfGpu& kernels,
                               std::int64_t tokens, device::Device& device, const comm::Group& world) {
  ops::AttentionTrial trial;
  world.agree([&] {
    require_gpu(device, kernels.choice, "these kernels");
    trial = try_all(device, attention_trials(config, tokens, /*library=*/{}),
                    rank::attention_kernels(config->device, config->model));
  });
  if (const std::string difference = first_of(trial.difference, world); !difference.empty()) {
    log_warning(fmt::format("attention: the kernels for all GPUs, as those for {} do not give what they give: {}",
                            kernels.architecture, difference));
    return by_kernels_for_all(config);
  }
  log_event(fmt::format("attention: kernels for {}, tried beside those for all GPUs", kernels.architecture));
  return config;
}

}  // namespace

std::vector<ops::AttentionSizes> attention_trials(const config::Config& config, std::int64_t tokens,
                                                  const ops::AttentionLibrary& library) {
  const bool has_backward = library.computes_backward(rank::attention_kernels(config.device, config.model));
  ops::AttentionSizes sizes = sizes_of(config, tokens, has_backward);
  std::vector<ops::AttentionSizes> trials;
  for (const std::int64_t window : model::attention_windows(config.model)) {
    // Shorter than the longest document of the trial, so that it hides keys, and longer than the others.
    sizes.window = window == 0 ? 0 : std::clamp<std::int64_t>(sizes.tokens / 4, 1, window);
    trials.push_back(sizes);
  }
  return trials;
}

std::string why_no_library(const config::Config& config, const ops::AttentionLibrary& library) {
  if (!ops::is_of_library(rank::attention_kernels(config.device, config.model))) return no_forward_of_sinks;
  if (keys_of(config.parallel) != ops::TrialKeys::rounds || library.has_float32_results) return {};
  return fmt::format(
      "rows are cut over ranks ({} gives no float32 results on some rank, which those over other ranks' keys are "
      "merged "
      "with; 9.19 does)",
      library.name);
}

config::ValidConfig settle_attention(const config::ValidConfig& config, std::int64_t tokens, device::Device& device,
                                     const comm::Group& world) {
  const config::AttentionChoice choice = config->device.attention;
  if (choice == config::AttentionChoice::automatic || choice == config::AttentionChoice::own) return config;
  if (const auto* kernels = config::attention_of_gpu(choice)) {
    return settle_own(config, *kernels, tokens, device, world);
  }
  ops::AttentionLibrary library;
  world.agree([&] {
    require_gpu(device, choice, "cuDNN");
    library = ops::find_attention_library();
    if (!library.problem.empty()) throw Error(ExitStatus::configuration, library.problem);
  });
  library.has_float32_results = on_all(library.has_float32_results, world);
  if (const std::string why = why_no_library(config, library); !why.empty()) {
    return without_library(config, why);
  }
  const ops::AttentionKernels kernels = rank::attention_kernels(config->device, config->model);
  ops::AttentionTrial trial;
  world.agree([&] { trial = try_all(device, attention_trials(config, tokens, library), kernels); });
  if (const std::string difference = first_of(trial.difference, world); !difference.empty()) {
    return without_library(config, fmt::format("{} does not give what they give: {}", library.name, difference));
  }
  const bool has_forward = on_all(trial.has_forward, world), has_backward = on_all(trial.has_backward, world);
  const bool has_sinks = config->model.attention_sinks;
  if (!has_backward && has_sinks) return without_library(config, no_forward_of_sinks);
  if (!has_forward && !has_backward) {
    return without_library(config, fmt::format("{} refuses heads of this model on this GPU", library.name));
  }
  std::string passes = has_sinks ? "backward" : "forward and backward";
  if (!ops::sums_in_order(kernels)) passes += ", its sums in any order (no run repeats its bits)";
  if (has_sinks) passes += fmt::format("; this program's kernels forward, as {}", no_forward_of_sinks);
  if (choice == config::AttentionChoice::cudnn_forward) {
    passes = "forward; this program's kernels backward";
  } else if (!has_backward) {
    passes = fmt::format("forward; this program's kernels backward, as {}", why_no_backward(*config, library));
  }
  log_event(fmt::format("attention: {} {}, tried beside this program's kernels", library.name, passes));
  // Ranks that exchange heads need not send the output then, and there is no working memory for it.
  if (!has_backward) return with_attention(config, config::AttentionChoice::cudnn_forward);
  return config;
}

}  // namespace sft::apps
