// SPDX-License-Identifier: Apache-2.0
// What the keys of [lora] may say of the model at hand.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/checks.hpp"
#include "config/refusals.hpp"
#include "sft/config/linear_modules.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

constexpr double max_rank = 1 << 12;
constexpr double max_rate_ratio = 1e6;

void check_values(const Config& config) {
  const Lora& lora = config.lora;
  Refusals refusals;
  const auto is_rank = [](double rank) { return rank >= 1 && rank <= max_rank && rank == std::trunc(rank); };
  refusals.require(config, is_rank(static_cast<double>(lora.lora_r)), "lora.lora_r",
                   fmt::format("from 1 to {}", max_rank));
  refusals.require(config, lora.lora_alpha > 0, "lora.lora_alpha", "above 0");
  refusals.require(config, lora.lora_dropout >= 0 && lora.lora_dropout < 1, "lora.lora_dropout", "at least 0, below 1");
  refusals.require(config, lora.loraplus_lr_ratio > 0 && lora.loraplus_lr_ratio <= max_rate_ratio,
                   "lora.loraplus_lr_ratio", fmt::format("above 0, at most {}", max_rate_ratio));
  const auto all = [](const ModuleNumbers& numbers, const std::function<bool(double)>& holds) {
    return std::ranges::all_of(numbers, [&](const auto& number) { return holds(number.second); });
  };
  refusals.require(config, all(lora.rank_pattern, is_rank), "lora.rank_pattern",
                   fmt::format("an object of whole numbers from 1 to {}", max_rank));
  refusals.require(config, all(lora.alpha_pattern, [](double alpha) { return alpha > 0; }), "lora.alpha_pattern",
                   "an object of numbers above 0");
  const auto is_block = [&](std::int64_t block) { return block < config.model.num_hidden_layers; };
  refusals.require(config, std::ranges::all_of(lora.layers_to_transform, is_block), "lora.layers_to_transform",
                   fmt::format("numbers of blocks, below num_hidden_layers = {}", config.model.num_hidden_layers));
  refusals.throw_if_any();
}

void check_targets(const Config& config) {
  const Lora& lora = config.lora;
  require(config, !lora.lora_target_modules.empty() || lora.adapts_experts(), "lora.lora_target_modules",
          "all-linear or names of linear layers");
  for (const std::string& target : lora.lora_target_modules) {
    const std::vector<std::string>& names = linear_layer_names();
    if (target == "all-linear" || std::ranges::find(names, target) != names.end()) continue;
    throw_config_error(
        fmt::format("`lora.lora_target_modules` names {}", target),
        fmt::format("adapters are added to the linear layers of a block, which are {}", fmt::join(names, ", ")),
        "choose among them, or set lora_target_modules = all-linear");
  }
}

/// A linear layer of a block, and its path.
struct ModuleOfBlock {
  LinearModule module;
  std::string path;
};

std::vector<ModuleOfBlock> modules_of_blocks(const Model& model) {
  std::vector<ModuleOfBlock> modules;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(model.num_hidden_layers); ++layer) {
    for (const LinearModule& module : linear_modules(model, layer)) modules.push_back({module, module.path(layer)});
  }
  return modules;
}

/// Work with a pattern of the key; what is no regular expression is refused.
template <class Work>
auto with_pattern(const std::string& key, const std::string& pattern, const Work& work) {
  try {
    return work();
  } catch (const std::invalid_argument& reason) {
    throw_config_error(fmt::format("`{}` has {}, which is no regular expression", key, pattern), reason.what(),
                       "correct it");
  }
}

void check_pattern(const std::string& key, const ModuleNumbers& numbers, const std::vector<std::string>& adapted) {
  for (const auto& [pattern, number] : numbers) {
    const std::string& text = pattern;  // which a lambda can capture
    const bool is_used = with_pattern(key, text, [&] {
      return std::ranges::any_of(adapted, [&](const std::string& module) { return matches_end(text, module); });
    });
    if (is_used) continue;
    throw_config_error(fmt::format("`{}` has {}, which no adapter's path ends with", key, text),
                       fmt::format("such a path is {}", adapted.front()), "correct it, or leave it out");
  }
}

/// The weights of experts that can have adapters, by their paths.
std::vector<std::string> expert_parameters(const Model& model) {
  std::vector<std::string> parameters;
  for (std::int64_t block = 0; block < model.num_hidden_layers; ++block) {
    if (!model.has_experts(static_cast<std::size_t>(block))) continue;
    for (const std::string& name : expert_parameter_names()) {
      parameters.push_back(fmt::format("model.layers.{}.mlp.experts.{}", block, name));
    }
  }
  return parameters;
}

/// Adds those that have adapters to `adapted`.
void check_target_parameters(const Config& config, std::vector<std::string>& adapted) {
  const Lora& lora = config.lora;
  if (!lora.adapts_experts()) return;
  const std::vector<std::string> parameters = expert_parameters(config.model);
  for (const std::string& target : lora.lora_target_parameters) {
    Lora alone = lora;
    alone.lora_target_parameters = {target};
    const auto is_target = [&](const std::string& parameter) { return alone.expert_adapter_of(parameter).has_value(); };
    if (std::ranges::any_of(parameters, is_target)) continue;
    throw_config_error(fmt::format("`lora.lora_target_parameters` names {}", target),
                       parameters.empty() ? std::string("it is about weights of experts, and this model has none")
                                          : fmt::format("weights that can be named are such as {}",
                                                        fmt::join(parameters.begin(), parameters.begin() + 2, " and ")),
                       parameters.empty() ? "leave it out; linear layers are named by lora_target_modules"
                                          : "give ends of such paths: mlp.experts.gate_up_proj,mlp.experts.down_proj");
  }
  const auto refuse = [](const std::string& key, const char* why, const char* what) {
    throw_config_error(fmt::format("`{}` does not go with lora.lora_target_parameters", key), why, what);
  };
  if (lora.lora_dropout != 0.0) {
    refuse(fmt::format("lora.lora_dropout = {:g}", lora.lora_dropout),
           "adapters of experts belong to weights, whose inputs PEFT does not drop either", "set lora_dropout = 0");
  }
  if (lora.use_dora) {
    refuse("lora.use_dora", "weights of experts have no magnitudes, nor has PEFT any", "set use_dora = false");
  }
  if (lora.init_lora_weights.splits_weights()) {
    refuse(fmt::format("lora.init_lora_weights = {}", write(lora.init_lora_weights)),
           "nothing is taken out of the weights of experts, nor does PEFT do so", "set init_lora_weights = true");
  }
  std::ranges::copy_if(parameters, std::back_inserter(adapted),
                       [&](const std::string& parameter) { return lora.expert_adapter_of(parameter).has_value(); });
}

/// Experts have the names of linear layers and no adapters by these.
void check_experts_are_no_target(const Config& config) {
  const std::vector<ModuleOfBlock> modules = modules_of_blocks(config.model);
  for (const std::string& target : config.lora.lora_target_modules) {
    const auto is_target = [&](const ModuleOfBlock& of_block) { return of_block.module.name == target; };
    if (target == "all-linear" || std::ranges::any_of(modules, is_target)) continue;
    throw_config_error(fmt::format("`lora.lora_target_modules` names {}", target),
                       "this model has it in its experts alone, whose weights are named by lora_target_parameters",
                       "leave it out, or set lora_target_modules = all-linear");
  }
}

/// Adapters that begin with a part of the weights.
void check_split_weights(const Config& config, const std::vector<ModuleOfBlock>& adapted) {
  const Lora& lora = config.lora;
  if (!lora.init_lora_weights.splits_weights()) return;
  const std::string key = fmt::format("`lora.init_lora_weights = {}`", write(lora.init_lora_weights));
  if (lora.load_in_4bit) {
    throw_config_error(key + " does not go with lora.load_in_4bit",
                       "the weights lose what adapters begin with, and what is left would be quantized anew",
                       "set init_lora_weights = true, or load_in_4bit = false");
  }
  for (const auto& [module, path] : adapted) {
    const std::int64_t rank = lora.size_of(path).rank, most = std::min(module.rows, module.columns);
    if (rank <= most) continue;
    throw_config_error(fmt::format("{} does not go with rank {} of {}", key, rank, path),
                       fmt::format("that weight has {} singular values, or rows of R", most),
                       fmt::format("set a rank of at most {}", most));
  }
}

void check_adapters(const Config& config) {
  const Lora& lora = config.lora;
  check_experts_are_no_target(config);
  if (!lora.layers_pattern.empty() && lora.layers_to_transform.empty()) {
    throw_config_error("`lora.layers_pattern` has nothing to do",
                       "it says where the numbers of layers_to_transform stand, and there are none",
                       "set layers_to_transform, or leave it out");
  }
  std::vector<ModuleOfBlock> modules;
  for (const ModuleOfBlock& of_block : modules_of_blocks(config.model)) {
    const auto has_adapter = [&] {
      return lora.adapts(of_block.module.name) && lora.transforms_block_of(of_block.path);
    };
    if (with_pattern("lora.layers_pattern", fmt::format("{}", fmt::join(lora.layers_pattern, " ")), has_adapter)) {
      modules.push_back(of_block);
    }
  }
  std::vector<std::string> adapted;
  std::ranges::transform(modules, std::back_inserter(adapted), &ModuleOfBlock::path);
  if (adapted.empty() && !lora.lora_target_modules.empty()) {
    throw_config_error(
        fmt::format("`lora.layers_pattern = {}` leaves no layer to adapt", fmt::join(lora.layers_pattern, " ")),
        "the blocks are held by what is called layers", "leave it out");
  }
  check_split_weights(config, modules);
  check_target_parameters(config, adapted);
  check_pattern("lora.rank_pattern", lora.rank_pattern, adapted);
  check_pattern("lora.alpha_pattern", lora.alpha_pattern, adapted);
}

void check_whole_modules(const Config& config) {
  const Model& model = config.model;
  for (const std::string& end : config.lora.modules_to_save) {
    // All paths that end so, of modules that the model has.
    std::vector<std::string> found;
    for (const std::string& name : whole_module_names()) {
      const bool exists = model.qk_norm || (name != "q_norm" && name != "k_norm");
      if (exists && !end.empty() && name.ends_with(end)) found.push_back(name);
    }
    const auto is_linear = [&](const std::string& name) { return name.ends_with(end); };
    if (found.empty() || std::ranges::any_of(linear_layer_names(), is_linear)) {
      throw_config_error(fmt::format("`lora.modules_to_save` names {}", end),
                         fmt::format("modules of this model that can be trained whole beside adapters are {}{}",
                                     fmt::join(whole_module_names().begin(), whole_module_names().end() - 2, ", "),
                                     model.qk_norm ? ", q_norm, k_norm" : ""),
                         "choose among them; linear layers of blocks get adapters");
    }
    for (const std::string& name : found) {
      if (!model.tie_word_embeddings || (name != "embed_tokens" && name != "lm_head")) continue;
      throw_config_error(fmt::format("`lora.modules_to_save` names {} of a model with tied embeddings", name),
                         "head and embeddings are one table there, and a copy of one of them would part them",
                         "leave it out, or give adapters a higher rank");
    }
  }
}

}  // namespace

void check_lora(const Config& config) {
  if (!config.lora.use_peft) return;
  Refusals refusals;
  refusals.collect([&] { check_values(config); });
  refusals.collect([&] { check_targets(config); });
  refusals.throw_if_any();
  refusals.collect([&] { check_adapters(config); });
  refusals.collect([&] { check_whole_modules(config); });
  refusals.throw_if_any();
}

}  // namespace sft::config
