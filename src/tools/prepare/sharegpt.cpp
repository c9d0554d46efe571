// SPDX-License-Identifier: Apache-2.0
#include "prepare/sharegpt.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "prepare/function_turn.hpp"

namespace sft::prepare {

namespace {

/// In small letters.
constexpr std::array<std::pair<std::string_view, std::string_view>, 19> sharegpt_roles = {{
    {"human", "user"},          {"user", "user"},         {"prompter", "user"},       {"gpt", "assistant"},
    {"assistant", "assistant"}, {"chatgpt", "assistant"}, {"bing", "assistant"},      {"bard", "assistant"},
    {"model", "assistant"},     {"ai", "assistant"},      {"bot", "assistant"},       {"function_call", "assistant"},
    {"tool_call", "assistant"}, {"tool", "tool"},         {"observation", "tool"},    {"function_response", "tool"},
    {"tool_response", "tool"},  {"system", "system"},     {"developer", "developer"},
}};

/// The likelier names first.
constexpr std::array exchanges = {Exchange{"input", "output"},   Exchange{"human", "assistant"},
                                  Exchange{"user", "assistant"}, Exchange{"question", "answer"},
                                  Exchange{"query", "response"}, Exchange{"prompt", "response"}};

std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Whether a role of ShareGPT says that its turn calls tools.
bool is_of_calls(const std::string& role) { return role == "function_call" || role == "tool_call"; }

}  // namespace

std::string speaker_of(const Json& turn) {
  for (const char* key : {"from", "role"}) {
    if (turn.is_object() && has_value(turn, key) && turn[key].is_string()) return turn[key].get<std::string>();
  }
  return "";
}

std::string sharegpt_role(const std::string& role) {
  const auto found =
      std::ranges::find(sharegpt_roles, in_small_letters(role), &std::pair<std::string_view, std::string_view>::first);
  return found == sharegpt_roles.end() ? role : std::string(found->second);
}

Json message_of_turn(const Json& turn, const std::string& where, RecordCensus& census) {
  check_object(turn, where);
  Json message = Json::object();
  for (const auto& [key, value] : turn.items()) {
    if (key == "from" || key == "role") {
      message["role"] = value;
    } else if (key == "value" || key == "content") {
      message["content"] = value;
    } else {
      message.get_ref<Json::object_t&>().emplace_back(key, value);  // no other has this key
    }
  }
  const std::string role = string_of(message, "role", where);
  message["role"] = sharegpt_role(role);
  if (is_of_calls(in_small_letters(role)) && has_value(message, "content") && !has_value(message, "tool_calls")) {
    const Json calls = message_of_calls(message["content"], census);
    if (calls.is_null()) ++census.num_plain_calls;
    for (const auto& [key, value] : calls.items()) message[key] = value;
  }
  return message;
}

bool is_turn_of_calls(const Json& turn, const Json& message) {
  return is_of_calls(in_small_letters(speaker_of(turn))) && has_value(message, "tool_calls");
}

std::optional<Exchange> exchange_in(const Json& turn) {
  if (!turn.is_object() || !speaker_of(turn).empty()) return std::nullopt;
  const auto is_it = [&turn](const Exchange& names) {
    return has_value(turn, names.question) && has_value(turn, names.answer);
  };
  const auto found = std::ranges::find_if(exchanges, is_it);
  return found == exchanges.end() ? std::nullopt : std::optional(*found);
}

Json named_turns(const Json& list, RecordCensus& census) {
  Json named = Json::array();
  const auto say = [&named](const char* who, const Json& text) { named.push_back({{"from", who}, {"value", text}}); };
  if (std::ranges::all_of(list, [](const Json& turn) { return turn.is_string(); })) {
    for (const Json& text : list) say(named.size() % 2 == 0 ? "human" : "gpt", text);
  } else if (std::ranges::all_of(list, [](const Json& turn) { return exchange_in(turn).has_value(); })) {
    for (const Json& turn : list) {
      const Exchange names = *exchange_in(turn);
      check_fields(turn, {}, "a turn", {names.question, names.answer}, "conversations[].", census);
      say("human", turn[names.question]);
      say("gpt", turn[names.answer]);
    }
  }
  return named.empty() ? Json() : named;
}

}  // namespace sft::prepare
