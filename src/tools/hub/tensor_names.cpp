// SPDX-License-Identifier: Apache-2.0
#include "tensor_names.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "sft/hub/tensor_map.hpp"

namespace sft::hub {

namespace {

constexpr std::string_view peft_prefix = "base_model.model.", body = "model.", head = "lm_head.";
/// What classes of transformers with several towers call the body of the text tower.
constexpr std::string_view tower_body = "model.language_model.", older_tower_body = "language_model.model.";

TensorKind kind_of(const std::string& suffix) {
  if (suffix == ".weight") return TensorKind::weight;
  if (suffix == ".bias" || suffix == ".lora_magnitude_vector") return TensorKind::bias;
  if (suffix == ".lora_A.weight") return TensorKind::lora_a;
  if (suffix == ".lora_B.weight") return TensorKind::lora_b;
  return TensorKind::other;
}

/// The name with `to` in place of `from` before it; nothing where that does not stand there.
std::optional<std::string> exchange(std::string_view from, std::string_view to, const std::string& name) {
  if (!name.starts_with(from)) return std::nullopt;
  return std::string(to) + name.substr(from.size());
}

/// What the files have for a name of the model that no rule is about.
std::string in_files(const FileLayout& layout, const std::string& name) {
  if (const auto found = exchange(body, layout.body, name)) return *found;
  return exchange(head, layout.head, name).value_or(name);
}

/// What modules of transformers have for it.
std::string in_transformers(const FileLayout& layout, const std::string& name) {
  return layout.is_tower() ? exchange(body, tower_body, name).value_or(name) : name;
}

std::string of_model(const FileLayout& layout, const std::string& name) {
  if (const auto found = exchange(layout.body, body, name)) return *found;
  return exchange(layout.head, head, name).value_or(name);
}

std::string of_adapter(const FileLayout& layout, const std::string& name) {
  if (!layout.is_tower()) return name;
  for (const std::string_view prefix : {tower_body, older_tower_body}) {
    if (const auto found = exchange(prefix, body, name)) return *found;
  }
  return name;
}

/// Which rule is about a module of the model.
struct FoundRule {
  const Rule* rule;
  std::size_t part;
  std::int64_t expert;
};

FoundRule find_rule(const FileLayout& layout, const std::string& module) {
  for (const Rule& rule : rules_of(layout.family)) {
    for (std::size_t part = 0; part < rule.parts.size(); ++part) {
      if (const auto expert = match(rule.parts[part].module, module)) return {&rule, part, *expert};
    }
  }
  return {nullptr, 0, 0};
}

}  // namespace

std::string TensorName::stored_module() const {
  return before + (rule == nullptr ? module : with_number(rule->stored, expert));
}

std::string TensorName::stored() const {
  if (rule == nullptr || rule->cut != Cut::experts) return stored_module() + suffix;
  return stored_module() + (kind == TensorKind::bias ? "_bias" : "");
}

TensorName name_of(const FileLayout& layout, const std::string& name) {
  const bool is_adapter = name.starts_with(peft_prefix);
  const std::string own = is_adapter ? name.substr(peft_prefix.size()) : name;
  NameParts parts = split_name(own);
  if (parts.stem.empty()) {
    const std::string stored = is_adapter ? in_transformers(layout, own) : in_files(layout, own);
    return {.before = is_adapter ? std::string(peft_prefix) : "", .module = stored, .suffix = ""};
  }
  TensorName result{.before = is_adapter ? std::string(peft_prefix) + in_transformers(layout, parts.stem)
                                         : in_files(layout, parts.stem),
                    .module = std::move(parts.module),
                    .suffix = std::move(parts.suffix)};
  result.kind = kind_of(result.suffix);
  const FoundRule found = find_rule(layout, result.module);
  if (result.kind == TensorKind::other) {
    if (found.rule != nullptr) result.module = found.rule->stored;  // a name alone, of a tensor that is not cut
    return result;
  }
  result.rule = found.rule;
  result.part = found.part;
  result.expert = found.expert;
  return result;
}

std::string StoredName::of_expert(std::size_t part, std::int64_t number) const {
  return stem + (rule == nullptr ? module : with_number(rule->parts[part].module, number)) + suffix;
}

StoredName stored_name_of(const FileLayout& layout, const std::string& name) {
  const bool is_adapter = name.starts_with(peft_prefix);
  const std::string own = is_adapter ? of_adapter(layout, name.substr(peft_prefix.size())) : of_model(layout, name);
  NameParts parts = split_name(own);
  StoredName result{.stem = (is_adapter ? std::string(peft_prefix) : "") + parts.stem,
                    .module = std::move(parts.module),
                    .suffix = std::move(parts.suffix)};
  result.kind = kind_of(result.suffix);
  if (parts.stem.empty()) return result;
  for (const Rule& rule : rules_of(layout.family)) {
    if (rule.cut == Cut::experts) {
      if (!result.suffix.empty()) continue;
      const bool is_bias = result.module == std::string(rule.stored) + "_bias";
      if (!is_bias && result.module != rule.stored) continue;
      result.rule = &rule;
      result.kind = is_bias ? TensorKind::bias : TensorKind::weight;
      result.suffix = is_bias ? ".bias" : ".weight";
      return result;
    }
    if (result.kind == TensorKind::other) {
      if (result.module == rule.stored) result.module = rule.parts.front().module;
      continue;
    }
    if (const auto expert = match(rule.stored, result.module)) {
      result.rule = &rule;
      result.expert = *expert;
      return result;
    }
  }
  return result;
}

std::string module_in_transformers(const FileLayout& layout, const std::string& module) {
  constexpr std::string_view suffix = ".weight";
  const std::string name = name_of(layout, std::string(peft_prefix) + module + std::string(suffix)).stored();
  return name.substr(peft_prefix.size(), name.size() - peft_prefix.size() - suffix.size());
}

std::map<std::string, std::int64_t> adapted_modules(const FileLayout& layout, const std::vector<std::string>& adapted) {
  const auto last_part = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::map<std::string, std::int64_t> result;
  for (const std::string& name : adapted) {
    std::string stored = name;
    for (const Rule& rule : rules_of(layout.family)) {
      const auto is_it = [&](const PartRule& part) { return last_part(part.module) == name; };
      if (std::ranges::any_of(rule.parts, is_it)) stored = last_part(rule.stored);
    }
    ++result[stored];
  }
  return result;
}

}  // namespace sft::hub
