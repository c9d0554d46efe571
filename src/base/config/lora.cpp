// SPDX-License-Identifier: Apache-2.0
#include "sft/config/lora.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sft/config/module_pattern.hpp"

namespace sft::config {

namespace {

constexpr std::string_view blocks = "model.layers";  // the path of what holds them

/// The number of the block in a module's path; none: it belongs to none.
std::optional<std::int64_t> block_of(const std::string& module) {
  if (!module.starts_with(blocks) || module.size() < blocks.size() + 2) return std::nullopt;
  std::int64_t block = 0;
  std::size_t at = blocks.size() + 1;
  for (; at < module.size() && module[at] >= '0' && module[at] <= '9'; ++at) block = 10 * block + (module[at] - '0');
  if (at == blocks.size() + 1 || at == module.size() || module[at] != '.') return std::nullopt;
  return block;
}

double number_for(const ModuleNumbers& numbers, const std::string& module, double otherwise) {
  const auto found =
      std::ranges::find_if(numbers, [&](const auto& number) { return matches_end(number.first, module); });
  return found == numbers.end() ? otherwise : found->second;
}

}  // namespace

bool matches_end(const std::string& pattern, const std::string& module) {
  return ModulePattern(R"((.*\.)?()" + pattern + ")").matches(module);
}

std::optional<FourBitForm> Lora::four_bit_form() const {
  if (!use_peft || !load_in_4bit) return std::nullopt;
  return FourBitForm{.type = bnb_4bit_quant_type, .is_nested = use_bnb_nested_quant};
}

std::optional<FourBitForm> Lora::four_bit_form_of_experts() const {
  return quantize_moe_experts ? four_bit_form() : std::nullopt;
}

bool skips(const std::string& name, const std::string& module) {
  if (name.empty()) return false;
  if (module.ends_with(name) || module.starts_with(name.back() == '.' ? name : name + ".")) return true;
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  return name.find_first_not_of(plain) != std::string::npos &&
         ModulePattern("(?:" + name + R"()(\..*)?)").matches(module);
}

bool Lora::skips_four_bits(const std::string& module) const {
  return std::ranges::any_of(llm_int8_skip_modules, [&](const std::string& name) { return skips(name, module); });
}

bool Lora::adapts(const std::string& name) const {
  return use_peft && std::ranges::any_of(lora_target_modules, [&](const std::string& target) {
           return target == "all-linear" || target == name;
         });
}

bool Lora::transforms_block_of(const std::string& module) const {
  if (layers_to_transform.empty()) return true;
  const std::optional<std::int64_t> block = block_of(module);
  const auto names_blocks = [](const std::string& pattern) { return matches_end(pattern, std::string(blocks)); };
  return block && std::ranges::find(layers_to_transform, *block) != layers_to_transform.end() &&
         (layers_pattern.empty() || std::ranges::any_of(layers_pattern, names_blocks));
}

AdapterSize Lora::size_of(const std::string& module) const {
  const double rank = number_for(rank_pattern, module, static_cast<double>(lora_r));
  const double alpha = number_for(alpha_pattern, module, lora_alpha);
  return {.rank = static_cast<std::int64_t>(rank), .scale = alpha / (use_rslora ? std::sqrt(rank) : rank)};
}

std::optional<AdapterSize> Lora::adapter_of(const std::string& module) const {
  if (!adapts(module.substr(module.rfind('.') + 1)) || !transforms_block_of(module)) return std::nullopt;
  return size_of(module);
}

std::optional<AdapterSize> Lora::expert_adapter_of(const std::string& parameter) const {
  const bool is_target = use_peft && std::ranges::any_of(lora_target_parameters, [&](const std::string& target) {
                           return parameter == target || parameter.ends_with("." + target);
                         });
  return is_target ? std::optional(size_of(parameter)) : std::nullopt;
}

Lora Lora::beside_whole_weights() const {
  if (!init_lora_weights.splits_weights()) return *this;
  Lora doubled = *this;
  const double alpha_factor = use_rslora ? std::sqrt(2.0) : 2.0;  // scales stay
  doubled.lora_r *= 2;
  doubled.lora_alpha *= alpha_factor;
  for (auto& [pattern, rank] : doubled.rank_pattern) rank *= 2;
  for (auto& [pattern, alpha] : doubled.alpha_pattern) alpha *= alpha_factor;
  doubled.init_lora_weights = {};
  return doubled;
}

std::int64_t Lora::max_rank() const {
  std::int64_t rank = lora_r;
  for (const auto& [pattern, number] : rank_pattern) rank = std::max(rank, static_cast<std::int64_t>(number));
  return rank;
}

bool Lora::saves(const std::string& module) const {
  return use_peft &&
         std::ranges::any_of(modules_to_save, [&](const std::string& end) { return module.ends_with(end); });
}

const std::vector<std::string>& expert_parameter_names() {
  static const std::vector<std::string> names = {"gate_up_proj", "down_proj"};
  return names;
}

const std::vector<std::string>& whole_module_names() {
  static const std::vector<std::string> names = {
      "embed_tokens", "lm_head", "norm", "input_layernorm", "post_attention_layernorm", "q_norm", "k_norm"};
  return names;
}

}  // namespace sft::config
