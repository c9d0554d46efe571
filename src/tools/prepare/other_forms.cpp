// SPDX-License-Identifier: Apache-2.0
#include "prepare/other_forms.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "prepare/jq_commands.hpp"
#include "prepare/reading_options.hpp"

namespace sft::prepare {

namespace {

/// The JSON in a text that begins so; null where it is none.
Json json_in(const Json& value, char first) {
  if (!value.is_string()) return nullptr;
  const auto& text = value.get_ref<const std::string&>();
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || text[begin] != first) return nullptr;
  try {
    return parse_json(text);
  } catch (const std::invalid_argument&) {
    return nullptr;
  }
}

/// Whether a text is a list of objects as Python's str() writes it.
bool is_printed_list(const Json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.starts_with("[{'") || text.starts_with("[{\n'");
}

bool is_index(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

/// The program of jq that makes records of a table; "": the record is none.
std::string program_of_table(const Json& record) {
  if (record.empty()) return "";
  const bool is_split = record.size() == 3 && has_value(record, "columns") && has_value(record, "index") &&
                        has_value(record, "data") && record["columns"].is_array() && record["data"].is_array();
  if (is_split) return ".columns as $names | .data[] | [$names, .] | transpose | map({(.[0]): .[1]}) | add";
  const auto is_row = [](const Json& value) { return value.is_object() && !value.empty(); };
  const std::string& name = record.begin().key();
  const Json& first = record.front();
  if (!is_row(first) || !(is_index(name) || is_index(first.begin().key()))) return "";
  for (const auto& [key, value] : record.items()) {
    if (!is_row(value) || is_index(key) != is_index(name)) return "";
    if (value.size() != first.size()) return "";
  }
  if (is_index(name)) return ".[]";
  return ". as $table | (map(keys_unsorted)[0][]) as $row | $table | map_values(.[$row])";
}

struct Speakers {
  const char *user, *assistant, *tool, *system;
};

constexpr std::array transcripts = {
    Speakers{"USER", "ASSISTANT", "FUNCTION RESPONSE", "SYSTEM"}, Speakers{"User", "Assistant", "Tool", "System"},
    Speakers{"Human", "Assistant", "Tool", "System"}, Speakers{"### Human", "### Assistant", "### Tool", "### System"}};

/// Whether a line of the text begins with the speaker and a colon.
bool says(const std::string& text, const char* speaker) {
  const std::string mark = std::string(speaker) + ":";
  return text.starts_with(mark) || text.find("\n" + mark) != std::string::npos;
}

}  // namespace

Json list_in_text(const Json& value) {
  Json list = json_in(value, '[');
  const bool is_list = list.is_array() && !list.empty() &&
                       std::ranges::all_of(list, [](const Json& entry) { return entry.is_object(); });
  return is_list ? list : Json();
}

void decode_texts(Json& record) {
  for (const char* name : {"messages", "conversations"}) {
    const auto field = record.find(name);
    if (field == record.end()) continue;
    if (is_printed_list(*field)) {
      refuse_record(fmt::format(
          "'{0}' is the text of a list as Python prints it, which is no JSON: `python3 -c \"import ast, json, sys; "
          "[print(json.dumps(r | {{'{0}': ast.literal_eval(r['{0}'])}})) for r in map(json.loads, sys.stdin)]\" <FILE` "
          "makes a list of it",
          name));
    }
    if (Json list = list_in_text(*field); !list.is_null()) *field = std::move(list);
  }
  if (const auto field = record.find("chat_template_kwargs"); field != record.end()) {
    if (Json variables = json_in(*field, '{'); variables.is_object()) *field = std::move(variables);
  }
}

void refuse_tables(const Json& record) {
  const std::string program = program_of_table(record);
  if (program.empty()) return;
  refuse_record(fmt::format(
      "it is a table in one object, as to_json() of pandas writes it without orient='records', lines=True: {} "
      "makes JSON lines of its rows",
      jq_command(program)));
}

void refuse_functions_for_query(const Json& record) {
  const auto is_list = [](const Json& value) { return !list_in_text(value).is_null() || value.is_array(); };
  const bool is_it = has_value(record, "query") && record["query"].is_string() && has_value(record, "tools") &&
                     has_value(record, "answers") && is_list(record["tools"]) && is_list(record["answers"]);
  if (!is_it) return;
  refuse_record(fmt::format(
      "it is a question with functions and the calls that answer it ('query', 'tools', 'answers'), as xlam has them, "
      "and "
      "no conversation: {} makes conversations of them",
      jq_command(R"(def list: if type == "string" then fromjson else . end; )"
                 R"({tools: [.tools | list[] | {type: "function", function: .}], )"
                 R"(prompt: [{role: "user", content: .query}], completion: [{role: "assistant", content: "", )"
                 R"(tool_calls: [.answers | list[] | {type: "function", function: .}]}]})")));
}

void refuse_transcripts(const Json& record) {
  for (const auto& [name, value] : record.items()) {
    if (!value.is_string()) continue;
    const auto& text = value.get_ref<const std::string&>();
    const auto is_of = [&](const Speakers& who) { return says(text, who.user) && says(text, who.assistant); };
    const auto who = std::ranges::find_if(transcripts, is_of);
    if (who == transcripts.end()) continue;
    const char* system = first_of(system_names, record);
    const std::string before =
        system == nullptr ? ""
                          : fmt::format(R"(system: ({} // "" | ltrimstr("{}: ")), )", jq_field(system), who->system);
    const std::string any = fmt::format("{}|{}|{}|{}", who->user, who->assistant, who->tool, who->system);
    const std::string program = fmt::format(
        R"jq({{{0}messages: [{1} | match("(?:\\A|\\n)({2}):\\s*([\\s\\S]*?)(?:\\s|<\\|endoftext\\|>)*)jq"
        R"jq((?=\\n(?:{2}):|\\z)"; "g").captures | {{role: {{"{3}": "user", "{4}": "assistant", "{5}": "tool", )jq"
        R"jq("{6}": "system"}}[.[0].string], content: .[1].string}}]}})jq",
        before, jq_field(name), any, who->user, who->assistant, who->tool, who->system);
    ReadingOptions options(record);
    options.take_text(name);
    refuse_record(
        fmt::format("its '{}' is a conversation in one text ('{}:', '{}:'): {} makes messages of it, in which calls of "
                    "functions stay text; {} trains on all of the text{}",
                    name, who->user, who->assistant, jq_command(program), options.words(), options.loss()));
  }
}

}  // namespace sft::prepare
