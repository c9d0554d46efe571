// SPDX-License-Identifier: Apache-2.0
#include "prepare/shown_turns.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <vector>

#include "prepare/sharegpt.hpp"

namespace sft::prepare {

namespace {

/// Which fields of a message left bytes in the text.
struct Shown {
  bool content = false;
  bool calls = false;
};

bool is_blank(const Json& text) {
  return !text.is_string() || text.get_ref<const std::string&>().find_first_not_of(" \t\n\v\f\r") == std::string::npos;
}

bool says_something(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return false;
  if (!content->is_array()) return !is_blank(*content);
  return std::ranges::any_of(*content, [](const Json& part) { return !is_blank(part.value("text", Json())); });
}

std::vector<Shown> shown_of(std::size_t num_messages, const jinja::Rendered& rendered) {
  std::vector<Shown> shown(num_messages);
  for (const jinja::Fragment& fragment : rendered.fragments) {
    if (fragment.source < 0) continue;
    const jinja::Source& source = rendered.sources[fragment.source];
    Shown& message = shown.at(source.message);
    message.content = message.content || source.field == "content";
    message.calls = message.calls || source.field == "tool_calls" || source.field == "function_call";
  }
  return shown;
}

[[noreturn]] void refuse_hidden_turn(const Conversation& chat, std::size_t number, const std::string& role) {
  const std::string usual = sharegpt_role(role);
  const std::string advice = usual != role && !chat.has_prompt
                                 ? fmt::format("--rename messages=conversations takes the role for that of '{}'", usual)
                                 : std::string("--chat_template_path gives one that shows it");
  refuse_record(fmt::format("the chat template leaves message {} out, whose role is '{}'; {}", number, role, advice));
}

}  // namespace

void check_turns_shown(const Conversation& chat, const jinja::Rendered& rendered, RecordCensus& census) {
  const Json& messages = chat.messages;
  const std::vector<Shown> shown = shown_of(messages.size(), rendered);
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const Json& message = messages[m];
    const bool calls = has_value(message, "tool_calls") && !is_empty(message["tool_calls"]);
    if (calls && !shown[m].calls) {
      refuse_unshown("tool_calls", fmt::format("the chat template leaves the 'tool_calls' of message {} out", m + 1));
    }
    if (!says_something(message) || shown[m].content) continue;
    if (!calls) refuse_hidden_turn(chat, m + 1, string_of(message, "role", "the message"));
    ++census.num_hidden_contents;
  }
}

}  // namespace sft::prepare
