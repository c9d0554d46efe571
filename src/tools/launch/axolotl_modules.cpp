// SPDX-License-Identifier: Apache-2.0
// Modules of a model, by the expressions with which Axolotl's files name them.

#include <fmt/format.h>
#include <algorithm>
#include <regex>
#include <sstream>
#include <vector>

#include "launch/axolotl.hpp"

namespace sft::launch {

namespace {

/// Where the blocks of a model's language lie in transformers, alone and beside a part for pictures.
constexpr const char* places_of_blocks[] = {"model.layers.0.", "model.language_model.layers.0.",
                                            "language_model.model.layers.0."};
constexpr const char* modules_of_blocks[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                             "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                             "mlp.down_proj"};
/// Linear layers of blocks that no model here has: recurrent ones, latent attention, and the shared expert of Qwen.
constexpr const char* modules_of_others =
    "in_proj out_proj x_proj dt_proj conv1d in_proj_* linear_attn.* q_a_proj q_b_proj kv_a_proj_with_mqa kv_b_proj "
    "dense "
    "shared_expert_gate shared_expert.*";

}  // namespace

NamedModules modules_of(const std::string& value) {
  std::vector<std::string> found, others;
  if (value.find_first_of("[(*\\") == std::string::npos) {
    std::istringstream words(value);
    for (std::string word; words >> word;) {
      const bool has_place = word.starts_with("self_attn.") || word.starts_with("mlp.");
      if (has_name(modules_of_others, word)) {
        others.push_back(word);
      } else {
        found.push_back(has_place ? word.substr(word.find('.') + 1) : word);
      }
    }
    if (found.empty()) return {value, ""};
    return {fmt::format("{}", fmt::join(found, " ")), fmt::format("{}", fmt::join(others, ", "))};
  }
  try {
    const std::regex expression(value);
    for (const std::string module : modules_of_blocks) {
      const bool is_meant = std::ranges::any_of(
          places_of_blocks, [&](const char* place) { return std::regex_match(place + module, expression); });
      if (is_meant) found.push_back(module.substr(module.find('.') + 1));
    }
  } catch (const std::regex_error&) {
    return {value, ""};
  }
  return {found.empty() ? value : fmt::format("{}", fmt::join(found, " ")), ""};
}

bool is_whole_model(const YAML::Node& expressions) {
  const auto is_trained = [&](const std::string& name) {
    return std::any_of(expressions.begin(), expressions.end(), [&](const YAML::Node& expression) {
      try {
        return std::regex_search(name, std::regex(expression.Scalar()), std::regex_constants::match_continuous);
      } catch (const std::regex_error&) {
        return false;
      }
    });
  };
  return is_trained("lm_head.weight") && is_trained("model.language_model.embed_tokens.weight") &&
         is_trained("model.language_model.norm.weight") &&
         is_trained("model.language_model.layers.0.self_attn.q_proj.weight");
}

}  // namespace sft::launch
