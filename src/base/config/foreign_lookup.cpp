// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <string_view>

#include "config/foreign_names.hpp"
#include "config/foreign_rows.hpp"
#include "config/quoting.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

using ForeignNames = std::map<std::string, ForeignName, std::less<>>;

ForeignNames table_of(const std::vector<ForeignRow>& rows) {
  ForeignNames names;
  for (const ForeignRow& row : rows) {
    std::istringstream words(row.names);
    for (std::string name; words >> name;) names[name] = {name, row.accepted, row.why, row.what_to_do};
  }
  return names;
}

const ForeignNames& names_of_sft() {
  static const ForeignNames names = table_of(foreign_rows_of_sft());
  return names;
}

/// The entry of the name, else the longest NAME* that fits it.
const ForeignName* find(const ForeignNames& names, const std::string& name) {
  if (const auto found = names.find(name); found != names.end()) return &found->second;
  for (std::size_t length = name.size(); length > 0; --length) {
    const auto found = names.find(name.substr(0, length) + "*");
    if (found != names.end()) return &found->second;
  }
  return nullptr;
}

bool fits(const std::string& value, std::string_view wanted) {
  if (wanted == "*") return true;
  if (wanted == "none") return is_none(value);
  if (wanted == "true" || wanted == "false") return truth_of(value) == (wanted == "true");
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  return std::ranges::equal(value, wanted, {}, lower, lower);
}

}  // namespace

const ForeignName* find_foreign_name(const std::string& name) {
  if (const ForeignName* found = find(names_of_sft(), name)) return found;
  for (const std::string_view prefix : {"fsdp_", "parallelism_config_"}) {
    if (name.starts_with(prefix)) return find(names_of_sft(), name.substr(prefix.size()));
  }
  return nullptr;
}

const ForeignName* find_exact_foreign_name(const std::string& name) {
  const auto found = names_of_sft().find(name);
  return found != names_of_sft().end() ? &found->second : nullptr;
}

const ForeignName* find_foreign_name_of_prepare(const std::string& name) {
  static const ForeignNames names = table_of(foreign_rows_of_prepare());
  return find(names, name);
}

std::vector<std::string> foreign_names() {
  std::vector<std::string> names;
  for (const auto& [name, foreign] : names_of_sft()) {
    if (!name.ends_with('*')) names.push_back(name);
  }
  return names;
}

bool is_flag(const ForeignName& foreign) {
  bool takes_truth = false;
  for (const Accepted& accepted : foreign.accepted) {
    const std::string_view value = accepted.value;
    const bool is_truth = value == "true" || value == "false";
    if (!is_truth && value != "none" && value != "*") return false;
    takes_truth = takes_truth || is_truth;
  }
  return takes_truth;
}

std::optional<Assignment> obey(const ForeignName& foreign, const Assignment& written, const std::string& program,
                               const std::string& place) {
  const std::string value = unquoted(written.value);
  for (const Accepted& accepted : foreign.accepted) {
    if (!fits(value, accepted.value)) continue;
    const std::string assignment = accepted.assignment;
    if (assignment.empty()) return std::nullopt;
    const std::size_t equals = assignment.find('=');
    const std::string text = assignment.substr(equals + 1);
    return Assignment{assignment.substr(0, equals), text == "*" ? written.value : text};
  }
  const std::string shown = value.empty() ? written.name : fmt::format("{} = {}", written.name, value);
  throw_config_error(fmt::format("{} does not take `{}` {}", program, shown, place), foreign.why, foreign.what_to_do);
}

}  // namespace sft::config
