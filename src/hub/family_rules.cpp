// SPDX-License-Identifier: Apache-2.0
// Source: conversion_mapping.py and the modules of transformers 5.23, and what its save_pretrained writes.
#include "family_rules.hpp"

#include <array>
#include <charconv>
#include <map>

namespace sft::hub {

namespace {

const Rule fused_attention{
    "self_attn.qkv_proj",
    Cut::rows,
    {{"self_attn.q_proj", Rows::queries}, {"self_attn.k_proj", Rows::keys}, {"self_attn.v_proj", Rows::keys}}};
const Rule fused_mlp{
    "mlp.gate_up_proj", Cut::rows, {{"mlp.gate_proj", Rows::intermediate}, {"mlp.up_proj", Rows::intermediate}}};

const std::vector<Rule>& phi() {
  static const std::vector<Rule> rules{fused_attention, fused_mlp};
  return rules;
}

const std::vector<Rule>& glm() {
  static const std::vector<Rule> rules{fused_mlp,
                                       {"self_attn.q_proj", Cut::rotary_pairs, {{"self_attn.q_proj", Rows::queries}}},
                                       {"self_attn.k_proj", Cut::rotary_pairs, {{"self_attn.k_proj", Rows::keys}}}};
  return rules;
}

const std::vector<Rule>& mixtral() {
  static const std::vector<Rule> rules{
      {"block_sparse_moe.gate", Cut::rows, {{"mlp.gate", Rows::as_stored}}},
      {"block_sparse_moe.experts.*.w1", Cut::rows, {{"mlp.experts.*.gate_proj", Rows::as_stored}}},
      {"block_sparse_moe.experts.*.w3", Cut::rows, {{"mlp.experts.*.up_proj", Rows::as_stored}}},
      {"block_sparse_moe.experts.*.w2", Cut::rows, {{"mlp.experts.*.down_proj", Rows::as_stored}}}};
  return rules;
}

const std::vector<Rule>& gpt_oss() {
  static const std::vector<Rule> rules{
      {"mlp.experts.gate_up_proj", Cut::experts, {{"mlp.experts.*.gate_up_proj", Rows::as_stored}}},
      {"mlp.experts.down_proj", Cut::experts, {{"mlp.experts.*.down_proj", Rows::as_stored}}}};
  return rules;
}

constexpr std::string_view layers = "model.layers.";
constexpr std::array<std::string_view, 5> suffixes{".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector",
                                                   ".weight", ".bias"};

}  // namespace

const std::vector<Rule>& rules_of(const std::string& family) {
  static const std::map<std::string, const std::vector<Rule>&> families{
      {"phi3", phi()}, {"glm", glm()}, {"glm4", glm()}, {"mixtral", mixtral()}, {"gpt_oss", gpt_oss()},
  };
  static const std::vector<Rule> none;
  const auto found = families.find(family);
  return found == families.end() ? none : found->second;
}

std::int64_t rows_of(const FileLayout& layout, Rows rows) {
  switch (rows) {
    case Rows::queries:
      return layout.num_attention_heads * layout.head_dim;
    case Rows::keys:
      return layout.num_key_value_heads * layout.head_dim;
    case Rows::intermediate:
      return layout.intermediate_size;
    case Rows::as_stored:
      return 0;
  }
  return 0;
}

HeadDefaults head_defaults_of(const std::string& family) {
  if (family == "glm" || family == "glm4") return {2, 128, 0.5};
  return {0, 0, 1.0};
}

NameParts split_name(const std::string& name) {
  if (!name.starts_with(layers)) return {"", name, ""};
  const std::size_t dot = name.find('.', layers.size());
  if (dot == std::string::npos) return {"", name, ""};
  const std::string stem = name.substr(0, dot + 1);
  for (const std::string_view suffix : suffixes) {
    if (!name.ends_with(suffix) || name.size() < stem.size() + suffix.size()) continue;
    return {stem, name.substr(stem.size(), name.size() - stem.size() - suffix.size()), std::string(suffix)};
  }
  return {stem, name.substr(stem.size()), ""};
}

std::optional<std::int64_t> match(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text ? std::optional<std::int64_t>(0) : std::nullopt;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (text.size() <= before.size() + after.size() || !text.starts_with(before) || !text.ends_with(after)) {
    return std::nullopt;
  }
  const char* const begin = text.data() + before.size();
  const char* const end = text.data() + text.size() - after.size();
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc{} || stop != end || number < 0) return std::nullopt;
  if (end - begin > 1 && *begin == '0') return std::nullopt;  // 01 is not what with_number() writes
  return number;
}

std::string with_number(std::string_view pattern, std::int64_t number) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return std::string(pattern);
  std::string text(pattern.substr(0, star));
  text += std::to_string(number);
  text += pattern.substr(star + 1);
  return text;
}

}  // namespace sft::hub
