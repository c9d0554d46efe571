// SPDX-License-Identifier: Apache-2.0
#include "family_rules.hpp"

#include <array>
#include <charconv>

#include "families/family.hpp"

namespace sft::hub {

namespace {

constexpr std::string_view layers = "model.layers.";
constexpr std::array<std::string_view, 5> suffixes{".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector",
                                                   ".weight", ".bias"};

}  // namespace

Rule fused_mlp() {
  return {"mlp.gate_up_proj", Cut::rows, {{"mlp.gate_proj", Rows::intermediate}, {"mlp.up_proj", Rows::intermediate}}};
}

std::vector<Rule> rules_of_mixtral() {
  return {{"block_sparse_moe.gate", Cut::rows, {{"mlp.gate", Rows::as_stored}}},
          {"block_sparse_moe.experts.*.w1", Cut::rows, {{"mlp.experts.*.gate_proj", Rows::as_stored}}},
          {"block_sparse_moe.experts.*.w3", Cut::rows, {{"mlp.experts.*.up_proj", Rows::as_stored}}},
          {"block_sparse_moe.experts.*.w2", Cut::rows, {{"mlp.experts.*.down_proj", Rows::as_stored}}}};
}

const std::vector<Rule>& rules_of(const std::string& model_type) {
  static const std::vector<Rule> none;
  const Family* const family = find_family(model_type);
  return family == nullptr ? none : family->rules;
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
