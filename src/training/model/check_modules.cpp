// SPDX-License-Identifier: Apache-2.0
// Keys of [lora] against the modules of the model at hand.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/modules.hpp"

namespace sft::model {

namespace {

using config::Config;
using config::Lora;
using config::Model;
using config::ModuleNumbers;
using Groups = std::vector<std::vector<LinearMember>>;

std::vector<LinearMember> all_of(const Groups& groups) {
  std::vector<LinearMember> members;
  for (const std::vector<LinearMember>& group : groups) members.insert(members.end(), group.begin(), group.end());
  return members;
}

/// Whether experts of the model, or its other layers, have a weight of this name.
bool has_weight(const Architecture& architecture, const std::string& name, bool of_experts) {
  return std::ranges::any_of(architecture.parts, [&](const parallel::PartUnits& part) {
    return part.of_experts == of_experts && std::ranges::any_of(part.units, [&](const parallel::Unit& unit) {
             return std::ranges::any_of(unit.parameters, [&](const parallel::Parameter& parameter) {
               return parameter.name.ends_with("." + name + ".weight");
             });
           });
  });
}

/// Names of linear layers. Experts may have the same ones and no adapters by these.
void check_targets(const Config& config, const std::vector<std::string>& names) {
  for (const std::string& target : config.lora.lora_target_modules) {
    if (target == "all-linear" || std::ranges::find(names, target) != names.end()) continue;
    const std::string problem = fmt::format("`lora.lora_target_modules` names {}", target);
    if (has_weight(make_architecture(config.model), target, /*of_experts=*/true)) {
      throw_config_error(problem,
                         "this model has it in its experts alone, whose weights are named by lora_target_parameters",
                         "leave it out, or set lora_target_modules = all-linear");
    }
    throw_config_error(
        problem,
        fmt::format("adapters are added to the linear layers of a block, which are {}", fmt::join(names, ", ")),
        "choose among them, or set lora_target_modules = all-linear");
  }
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
      return std::ranges::any_of(adapted, [&](const std::string& module) { return config::matches_end(text, module); });
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
    for (const std::string& name : config::expert_parameter_names()) {
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
    refuse(fmt::format("lora.init_lora_weights = {}", config::write(lora.init_lora_weights)),
           "nothing is taken out of the weights of experts, nor does PEFT do so", "set init_lora_weights = true");
  }
  std::ranges::copy_if(parameters, std::back_inserter(adapted),
                       [&](const std::string& parameter) { return lora.expert_adapter_of(parameter).has_value(); });
}

/// Adapters that begin with a part of the weights.
void check_split_weights(const Config& config, const std::vector<LinearMember>& adapted) {
  const Lora& lora = config.lora;
  if (!lora.init_lora_weights.splits_weights()) return;
  const std::string key = fmt::format("`lora.init_lora_weights = {}`", config::write(lora.init_lora_weights));
  if (lora.load_in_4bit) {
    throw_config_error(key + " does not go with lora.load_in_4bit",
                       "the weights lose what adapters begin with, and what is left would be quantized anew",
                       "set init_lora_weights = true, or load_in_4bit = false");
  }
  for (const auto& [path, shape] : adapted) {
    const std::int64_t rank = lora.size_of(path).rank, most = std::min(shape.rows, shape.columns);
    if (rank <= most) continue;
    throw_config_error(fmt::format("{} does not go with rank {} of {}", key, rank, path),
                       fmt::format("that weight has {} singular values, or rows of R", most),
                       fmt::format("set a rank of at most {}", most));
  }
}

void check_adapters(const Config& config, const Groups& groups) {
  const Lora& lora = config.lora;
  if (!lora.layers_pattern.empty() && lora.layers_to_transform.empty()) {
    throw_config_error("`lora.layers_pattern` has nothing to do",
                       "it says where the numbers of layers_to_transform stand, and there are none",
                       "set layers_to_transform, or leave it out");
  }
  std::vector<LinearMember> modules;
  for (const LinearMember& member : all_of(groups)) {
    const auto has_adapter = [&] { return lora.adapts(member.name()) && lora.transforms_block_of(member.module); };
    if (with_pattern("lora.layers_pattern", fmt::format("{}", fmt::join(lora.layers_pattern, " ")), has_adapter)) {
      modules.push_back(member);
    }
  }
  std::vector<std::string> adapted;
  std::ranges::transform(modules, std::back_inserter(adapted), &LinearMember::module);
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

/// The names of config::whole_module_names() that the model has. A tied head is one of them, and has an error of its
/// own.
std::vector<std::string> whole_modules_of(const Model& model) {
  const Architecture architecture = make_architecture(model);
  const auto exists = [&](const std::string& name) {
    return name == "lm_head" || has_weight(architecture, name, /*of_experts=*/false);
  };
  std::vector<std::string> names;
  std::ranges::copy_if(config::whole_module_names(), std::back_inserter(names), exists);
  return names;
}

void check_whole_modules(const Config& config, const std::vector<std::string>& names) {
  const Model& model = config.model;
  if (config.lora.modules_to_save.empty()) return;
  const std::vector<std::string> whole_modules = whole_modules_of(model);
  for (const std::string& end : config.lora.modules_to_save) {
    // All paths that end so, of modules that the model has.
    std::vector<std::string> found;
    for (const std::string& name : whole_modules) {
      if (!end.empty() && name.ends_with(end)) found.push_back(name);
    }
    const auto is_linear = [&](const std::string& name) { return name.ends_with(end); };
    if (found.empty() || std::ranges::any_of(names, is_linear)) {
      throw_config_error(fmt::format("`lora.modules_to_save` names {}", end),
                         fmt::format("modules of this model that can be trained whole beside adapters are {}",
                                     fmt::join(whole_modules, ", ")),
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

/// A name of llm_int8_skip_modules is about some module, and matrices that are one product are kept alike.
void check_skipped_modules(const Config& config, const Groups& groups) {
  const Lora& lora = config.lora;
  if (!lora.load_in_4bit) return;
  const auto refuse = [](const std::string& problem, const std::string& why, const std::string& what_to_do) {
    throw_config_error("`lora.llm_int8_skip_modules` " + problem, why, what_to_do);
  };
  for (const std::string& name : lora.llm_int8_skip_modules) {
    const auto is_about = [&](const LinearMember& member) { return config::skips(name, member.module); };
    bool is_used = name.find("layers.") == std::string::npos &&
                   name.find("_proj") == std::string::npos;  // another module, as lm_head
    try {
      is_used = is_used || std::ranges::any_of(all_of(groups), is_about);
    } catch (const std::invalid_argument& reason) {
      refuse(fmt::format("names {}", name), reason.what(), "write the beginning or the end of a module's path");
    }
    if (is_used) continue;
    refuse(fmt::format("names {}", name), "no linear layer of this model's blocks is called so",
           fmt::format("name layers as {}", groups.front().front().module));
  }
  for (const std::vector<LinearMember>& group : groups) {
    const auto is_skipped = [&](const LinearMember& member) { return lora.skips_four_bits(member.module); };
    if (std::ranges::none_of(group, is_skipped)) continue;
    const auto other = std::ranges::find_if_not(group, is_skipped);
    if (other == group.end()) continue;
    std::vector<std::string> names;
    std::ranges::transform(group, std::back_inserter(names), &LinearMember::module);
    refuse(fmt::format("leaves {} out", other->module),
           fmt::format("{} are one product, and are kept alike", fmt::join(names, ", ")), "name all of them, or none");
  }
}

}  // namespace

void check_modules(const Config& config) {
  if (!config.lora.use_peft) return;
  const Groups groups = linear_modules(config.model);
  const std::vector<std::string> names = names_of(groups);
  check_targets(config, names);
  check_adapters(config, groups);
  check_whole_modules(config, names);
  check_skipped_modules(config, groups);
}

}  // namespace sft::model
