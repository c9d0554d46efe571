// SPDX-License-Identifier: Apache-2.0
#include "data/shown_turns.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <vector>

namespace sft::data {

namespace {

/// Which fields of a message left bytes in the text.
struct Shown {
  bool content = false;
  bool calls = false;
};

bool says_something(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return false;
  if (content->is_array()) return !content->empty();
  return content->is_string() &&
         content->get_ref<const std::string&>().find_first_not_of(" \t\n\v\f\r") != std::string::npos;
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

}  // namespace

void check_turns_shown(const Json& messages, const jinja::Rendered& rendered, RecordCensus& census) {
  const std::vector<Shown> shown = shown_of(messages.size(), rendered);
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const Json& message = messages[m];
    const bool calls = has_value(message, "tool_calls") && !is_empty(message["tool_calls"]);
    if (calls && !shown[m].calls) {
      refuse_unshown("tool_calls", fmt::format("the chat template leaves the 'tool_calls' of message {} out", m + 1));
    }
    if (!says_something(message) || shown[m].content) continue;
    if (calls) {
      ++census.num_hidden_contents;
    } else {
      refuse_record(fmt::format(
          "the chat template leaves message {} out, whose role is '{}'; --chat_template_path gives one that shows it",
          m + 1, string_of(message, "role", "the message")));
    }
  }
}

}  // namespace sft::data
