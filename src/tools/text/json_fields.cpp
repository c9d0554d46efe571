// SPDX-License-Identifier: Apache-2.0
#include "text/json_fields.hpp"

#include <fmt/core.h>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "text/utf8.hpp"

namespace sft::text {

namespace {

constexpr int max_depth = 64;

/// Values in values; the parser itself would follow any depth.
void check_depth(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) throw std::invalid_argument("its values are nested deeper than 64");
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

[[noreturn]] void refuse(const char* name, const char* expected) {
  throw std::invalid_argument(fmt::format("\"{}\" is not {}", name, expected));
}

}  // namespace

Json parse_json(const std::string& text) {
  check_depth(text);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw std::invalid_argument(fmt::format("it is not JSON at byte {}", error.byte));
  }
}

bool has_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

const Json& field_of(const Json& object, const char* name) {
  if (!object.is_object()) throw std::invalid_argument(fmt::format("what should have \"{}\" is no object", name));
  const auto found = object.find(name);
  if (found == object.end()) throw std::invalid_argument(fmt::format("\"{}\" is missing", name));
  return *found;
}

const Json& array_of(const Json& object, const char* name) {
  const Json& value = field_of(object, name);
  if (!value.is_array()) refuse(name, "a list");
  return value;
}

std::string string_of(const Json& object, const char* name) {
  const Json& value = field_of(object, name);
  if (!value.is_string()) refuse(name, "a string");
  return value.get<std::string>();
}

std::string string_of(const Json& object, const char* name, const std::string& otherwise) {
  return has_field(object, name) ? string_of(object, name) : otherwise;
}

bool bool_of(const Json& object, const char* name, bool otherwise) {
  if (!has_field(object, name)) return otherwise;
  const Json& value = field_of(object, name);
  if (!value.is_boolean()) refuse(name, "true or false");
  return value.get<bool>();
}

std::int32_t number_of(const Json& value, const char* name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max()) {
    refuse(name, "a number from 0 to 2147483647");
  }
  return value.get<std::int32_t>();
}

std::string character_of(const Json& object, const char* name) {
  std::string text = string_of(object, name);
  if (text.empty() || character_at(text, 0).size != text.size()) refuse(name, "one character");
  return text;
}

}  // namespace sft::text
