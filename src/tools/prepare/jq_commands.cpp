// SPDX-License-Identifier: Apache-2.0
#include "prepare/jq_commands.hpp"

#include <fmt/core.h>

#include "prepare/reading_options.hpp"

namespace sft::prepare {

namespace {

/// Filter of jq for the user's turn: messages, or a text.
std::string prompt_of(const Json& record, const std::string& question) {
  std::string field = jq_field(question);
  if (record[question].is_array()) return field;
  const char* input = input_of(record, question);
  const bool has_input = input != nullptr && !is_empty(record[input]);
  return fmt::format(R"([{{role: "user", content: {}}}])",
                     has_input ? fmt::format(R"(({} + "\n" + {}))", field, jq_field(input)) : field);
}

}  // namespace

std::string jq_field(const std::string& name) {
  std::string quoted;
  for (const char c : Json(name).dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '\'' || c == '`') {
      quoted += fmt::format("\\u{:04x}", c);  // the shell and the sentence around it end there
    } else {
      quoted += c;
    }
  }
  return ".[" + quoted + "]";
}

std::string jq_command(std::string_view program) {
  return fmt::format("`jq -c '(arrays[], objects) | {}' FILE`", program);
}

std::string advice_on_thoughts(const Json& record, const std::string& question, const Thoughts& thoughts) {
  std::string others;
  const char* system = first_of(system_names, record);
  if (system != nullptr && !is_empty(record[system])) others += fmt::format("system: {}, ", jq_field(system));
  if (has_value(record, "tools")) others += fmt::format("tools: {}, ", jq_field("tools"));
  const bool is_list = record[thoughts.field].is_array();
  const std::string field = jq_field(thoughts.field);
  const std::string program = fmt::format(
      R"({{{}prompt: {}, completion: [{{role: "assistant", content: ("<think>\n" + {} + "\n</think>\n\n" + {})}}]}})",
      others, prompt_of(record, question), is_list ? fmt::format(R"(({} | join("\n")))", field) : field,
      jq_field(thoughts.answer));
  return fmt::format("; {} puts the thoughts of '{}' before '{}'", jq_command(program), thoughts.field,
                     thoughts.answer);
}

}  // namespace sft::prepare
