// SPDX-License-Identifier: Apache-2.0
#include "config_fields.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <limits>

#include "sft/core/error.hpp"

namespace sft::hub {

using nlohmann::json;

namespace {

constexpr std::size_t max_shown = 80;  ///< characters of a value in a message

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > max_shown) text = text.substr(0, max_shown) + "...";
  return text;
}

/// Whether a field that is not known cannot mean anything.
bool says_nothing(const json& value) {
  if (value.is_number()) return value.get<double>() == 0.0;
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_null() || ((value.is_string() || value.is_structured()) && value.empty()) || value == "";
}

}  // namespace

const json& ConfigFields::value(const std::string& name) {
  static const json nothing;
  read_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() ? nothing : *found;
}

std::int64_t ConfigFields::required_integer(const std::string& name) {
  if (value(name).is_null()) {
    throw_data_error(fmt::format("{} has no {}", source_, name), "the size of the model depends on it",
                     "use the model's config.json");
  }
  return integer(name, 0);
}

std::int64_t ConfigFields::integer(const std::string& name, std::int64_t fallback) {
  const json& field = value(name);
  if (field.is_null()) return fallback;
  if (!field.is_number_integer()) refuse_kind(name, "a whole number");
  if (field.is_number_unsigned() &&
      field.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    refuse_kind(name, "a number of this size");
  }
  const auto number = field.get<std::int64_t>();
  if (number < 0) refuse_kind(name, "0 or more");
  return number;
}

double ConfigFields::number(const std::string& name, double fallback) {
  const json& field = value(name);
  if (field.is_null()) return fallback;
  if (!field.is_number()) refuse_kind(name, "a number");
  return field.get<double>();
}

bool ConfigFields::truth(const std::string& name, bool fallback) {
  const json& field = value(name);
  if (field.is_null()) return fallback;
  if (!field.is_boolean()) refuse_kind(name, "true or false");
  return field.get<bool>();
}

std::string ConfigFields::text(const std::string& name, const std::string& fallback) {
  const json& field = value(name);
  if (field.is_null()) return fallback;
  if (!field.is_string()) refuse_kind(name, "a text");
  return field.get<std::string>();
}

std::vector<std::string> ConfigFields::texts(const std::string& name) {
  const json& field = value(name);
  if (field.is_null()) return {};
  if (!field.is_array()) refuse_kind(name, "a list of texts");
  std::vector<std::string> result;
  for (const json& item : field) {
    if (!item.is_string()) refuse_kind(name, "a list of texts");
    result.push_back(item.get<std::string>());
  }
  return result;
}

std::vector<int> ConfigFields::integers(const std::string& name) {
  const json& field = value(name);
  if (field.is_null()) return {};
  const auto is_integer = [](const json& item) { return item.is_number_integer(); };
  if (!field.is_array() || !std::ranges::all_of(field, is_integer)) refuse_kind(name, "a list of whole numbers");
  return field.get<std::vector<int>>();
}

std::vector<std::string> ConfigFields::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, field] : object_.items()) {
    if (!read_.contains(name) && !says_nothing(field)) names.push_back(name);
  }
  return names;
}

void ConfigFields::refuse(const std::string& name, const std::string& why, const std::string& what_to_do) const {
  const auto found = object_.find(name);
  const std::string shown_value = found == object_.end() ? "" : " = " + shown(*found);
  throw_data_error(fmt::format("`{}{}` of {} is not supported", name, shown_value, source_), why, what_to_do);
}

void ConfigFields::refuse_kind(const std::string& name, const std::string& expected) const {
  throw_data_error(fmt::format("cannot read `{} = {}` of {}", name, shown(object_.at(name)), source_),
                   "it should be " + expected, "correct the file, or download it again");
}

}  // namespace sft::hub
