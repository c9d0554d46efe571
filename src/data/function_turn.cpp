// SPDX-License-Identifier: Apache-2.0
#include "data/function_turn.hpp"

#include <stdexcept>
#include <string_view>
#include <utility>

namespace sft::data {

namespace {

constexpr std::string_view begin_of_thoughts = "<think>";
constexpr std::string_view end_of_thoughts = "</think>";

/// The JSON in a text; null where it is none.
Json json_in(const std::string& text) {
  try {
    return parse_json(text);
  } catch (const std::invalid_argument&) {
    return nullptr;
  }
}

/// {"name", "arguments"} as an entry of "tool_calls"; null where it is no call.
Json call_of(const Json& entry) {
  const bool is_call = entry.is_object() && entry.value("name", Json()).is_string() && entry.contains("arguments");
  if (!is_call) return nullptr;
  Json function = entry;
  if (Json& arguments = function["arguments"]; arguments.is_string()) {
    if (Json object = json_in(arguments.get<std::string>()); object.is_object()) arguments = std::move(object);
  }
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json calls_of(const Json& value) {
  const Json list = value.is_array() ? value : Json::array({value});
  Json calls = Json::array();
  for (const Json& entry : list) {
    calls.push_back(call_of(entry));
    if (calls.back().is_null()) return nullptr;
  }
  return calls.empty() ? Json() : calls;
}

}  // namespace

Json message_of_calls(const Json& value) {
  std::string thoughts;
  Json calls;
  if (value.is_string()) {
    std::string_view text = value.get_ref<const std::string&>();
    const std::size_t end = text.find(end_of_thoughts);
    if (text.starts_with(begin_of_thoughts) && end != std::string_view::npos) {
      thoughts = text.substr(0, end + end_of_thoughts.size());
      text.remove_prefix(thoughts.size());
    }
    calls = calls_of(json_in(std::string(text)));
  } else {
    calls = calls_of(value);
  }
  if (calls.is_null()) return nullptr;
  return {{"content", std::move(thoughts)}, {"tool_calls", std::move(calls)}};
}

}  // namespace sft::data
