// SPDX-License-Identifier: Apache-2.0
#include "prepare/function_turn.hpp"

#include <stdexcept>
#include <string_view>
#include <utility>

namespace sft::prepare {

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

bool is_function(const Json& value) {
  return value.is_object() && value.value("name", Json()).is_string() && value.contains("arguments");
}

/// {"name", "arguments"}, or that as the "function" of an entry, as an entry of "tool_calls"; null where it is no call.
Json call_of(const Json& entry) {
  const bool is_wrapped = !is_function(entry);
  if (is_wrapped && !(entry.is_object() && entry.contains("function") && is_function(entry["function"])))
    return nullptr;
  Json function = Json::object();
  for (const auto& [key, value] : (is_wrapped ? entry["function"] : entry).items()) {
    if (key == "name" || key == "arguments") function[key] = value;
  }
  if (Json& arguments = function["arguments"]; arguments.is_string()) {
    if (Json object = json_in(arguments.get<std::string>()); object.is_object()) arguments = std::move(object);
  }
  Json call = {{"type", "function"}, {"function", std::move(function)}};
  if (has_value(entry, "id")) call["id"] = entry["id"];
  return call;
}

/// Counts the fields of a call that call_of() does not take.
void count_ignored(const Json& entry, RecordCensus& census) {
  const std::string path = "tool_calls[].";
  const bool is_wrapped = !is_function(entry);
  for (const auto& [key, value] : entry.items()) {
    const bool is_type = key == "type" && value == "function";
    const bool is_taken = key == "id" || (is_wrapped ? key == "function" : key == "name" || key == "arguments");
    if (!value.is_null() && !is_type && !is_taken) census.ignored_fields.add(path + key);
  }
  if (is_wrapped) check_fields(entry["function"], {}, "a call", {"name", "arguments"}, path + "function.", census);
}

Json calls_of(const Json& value, RecordCensus& census) {
  const Json list = value.is_array() ? value : Json::array({value});
  Json calls = Json::array();
  for (const Json& entry : list) {
    calls.push_back(call_of(entry));
    if (calls.back().is_null()) return nullptr;
  }
  for (const Json& entry : list) count_ignored(entry, census);
  return calls.empty() ? Json() : calls;
}

}  // namespace

Json message_of_calls(const Json& value, RecordCensus& census) {
  std::string thoughts;
  Json calls;
  if (value.is_string()) {
    std::string_view text = value.get_ref<const std::string&>();
    const std::size_t end = text.find(end_of_thoughts);
    if (text.starts_with(begin_of_thoughts) && end != std::string_view::npos) {
      thoughts = text.substr(0, end + end_of_thoughts.size());
      text.remove_prefix(thoughts.size());
    }
    calls = calls_of(json_in(std::string(text)), census);
  } else {
    calls = calls_of(value, census);
  }
  if (calls.is_null()) return nullptr;
  return {{"content", std::move(thoughts)}, {"tool_calls", std::move(calls)}};
}

}  // namespace sft::prepare
