// SPDX-License-Identifier: Apache-2.0
#include "prepare/other_names.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prepare/answers.hpp"
#include "prepare/jq_commands.hpp"
#include "prepare/other_forms.hpp"
#include "prepare/reading_options.hpp"
#include "prepare/sharegpt.hpp"
#include "sft/prepare/field_names.hpp"

namespace sft::prepare {

namespace {

using Names = std::pair<const char*, const char*>;

/// Names of a question and its answer, in small letters, the likelier ones first.
constexpr std::array pairs = {Names{"question", "answer"},
                              Names{"question", "response"},
                              Names{"question", "solution"},
                              Names{"question", "output"},
                              Names{"query", "response"},
                              Names{"query", "answer"},
                              Names{"query", "output"},
                              Names{"problem", "solution"},
                              Names{"problem", "generated_solution"},
                              Names{"problem", "answer"},
                              Names{"instruction", "response"},
                              Names{"instruction", "completion"},
                              Names{"instruction", "answer"},
                              Names{"instruction", "target"},
                              Names{"inputs", "targets"},
                              Names{"inputs_pretokenized", "targets_pretokenized"},
                              Names{"prompt", "response"},
                              Names{"prompt", "answer"},
                              Names{"prompt", "output"},
                              Names{"prompt", "chosen"},
                              Names{"question", "chosen"},
                              Names{"instruction", "chosen"},
                              Names{"input", "chosen"},
                              Names{"input", "output"},
                              Names{"input", "target"},
                              Names{"source", "target"},
                              Names{"user", "assistant"},
                              Names{"human", "assistant"},
                              Names{"document", "summary"},
                              Names{"dialogue", "summary"},
                              Names{"article", "highlights"}};

/// Names of questions, in small letters, the likelier ones first.
constexpr std::array questions = {"question", "problem", "query", "instruction", "prompt", "inputs", "input", "task"};
constexpr std::array texts = {"content", "document", "article", "body", "passage"};

bool is_list(const Json& record, std::string_view name) {
  return has_value(record, name) && record.at(std::string(name)).is_array() && !record.at(std::string(name)).empty();
}

/// "messages" for a list of messages, "conversations" for another list of turns, nullptr for any other value.
const char* shape_of_list(const Json& list) {
  if (!list.is_array() || list.empty()) return nullptr;
  const Json& first = list.front();
  if (first.is_string() || exchange_in(first)) return "conversations";
  const std::string speaker = speaker_of(first);
  if (speaker.empty() || (!has_value(first, "value") && !first.contains("content"))) return nullptr;
  const bool is_message = has_value(first, "role") && first.contains("content") && sharegpt_role(speaker) == speaker;
  return is_message ? "messages" : "conversations";
}

/// Lists of turns that are called otherwise. A list of texts is one where its name says so.
void refuse_other_lists(const Json& record) {
  constexpr std::array names_of_chats = {"conversation", "dialog", "dialogue", "chat", "turns", "data", "items"};
  for (const auto& [name, given] : record.items()) {
    const Json decoded = list_in_text(given);
    const Json& value = decoded.is_null() ? given : decoded;
    const char* shape = shape_of_list(value);
    if (shape == nullptr) continue;
    const bool is_named_so = std::ranges::find(names_of_chats, std::string_view(name)) != names_of_chats.end();
    if (value.front().is_string() && !is_named_so) continue;
    ReadingOptions options(record);
    options.rename(name, shape).rename_system();
    refuse_record(
        fmt::format("it has a list '{}', and no 'messages': give {}{}", name, options.words(), options.loss()));
  }
}

[[noreturn]] void refuse_list_of_records(const std::string& name) {
  refuse_record(fmt::format(
      "it is one object whose '{}' is a list of objects, as a file of records may be wrapped, and a record is one of "
      "them: {} makes JSON lines of these",
      name, jq_command(jq_field(name) + "[]")));
}

/// Lists of questions and answers in an object that says little else, by names that files of records give them.
void refuse_lists_of_exchanges(const Json& record) {
  constexpr std::array names_of_files = {"data", "rows", "records", "examples", "instances", "train", "samples"};
  for (const char* name : names_of_files) {
    const auto is_exchange = [](const Json& entry) { return exchange_in(entry).has_value(); };
    if (is_list(record, name) && std::ranges::all_of(record[name], is_exchange)) refuse_list_of_records(name);
  }
}

/// The first of these names that every entry has; "": none.
template <std::size_t count>
std::string name_in_all(const std::array<const char*, count>& names, const Json& list) {
  for (const char* name : names) {
    const auto has_it = [&](const Json& entry) { return entry.is_object() && has_value(entry, name); };
    if (std::ranges::all_of(list, has_it)) return name;
  }
  return "";
}

/// Lists of turns whose speakers and texts are called otherwise.
void refuse_turns_of_other_names(const Json& record) {
  constexpr std::array speakers = {"role", "from", "speaker", "author", "sender"};
  constexpr std::array said = {"content", "value", "text", "utterance", "message", "parts"};
  for (const auto& [name, list] : record.items()) {
    if (!list.is_array() || list.empty()) continue;
    const std::string speaker = name_in_all(speakers, list), text = name_in_all(said, list);
    if (speaker.empty() || text.empty()) continue;
    const std::string value = text == "parts" ? R"([.parts[].text] | join(""))" : jq_field(text);
    const char* system =
        has_value(record, "systemInstruction") ? R"(system: ([.systemInstruction.parts[].text] | join("")), )" : "";
    refuse_record(fmt::format(
        "the turns of its list '{}' have '{}' and '{}', and not 'role' and 'content': {} makes messages of them", name,
        speaker, text,
        jq_command(fmt::format("{{{}conversations: [{}[] | {{from: {}, value: ({})}}]}}", system, jq_field(name),
                               jq_field(speaker), value))));
  }
}

/// Lists of objects that are no turns, where nothing else of the record can be read.
void refuse_lists_of_records(const Json& record) {
  for (const auto& [name, value] : record.items()) {
    const bool is_of_objects = value.is_array() && !value.empty() &&
                               std::ranges::all_of(value, [](const Json& entry) { return entry.is_object(); });
    if (is_of_objects) refuse_list_of_records(name);
  }
}

[[noreturn]] void refuse_preference(const ReadingOptions& options) {
  refuse_record(
      fmt::format("it is a record of preferences ('chosen' and 'rejected'), which this program does not train "
                  "on; {} trains on what was chosen{}",
                  options.words(), options.loss()));
}

constexpr std::array prompts = {"prompt", "question", "instruction", "input"};

/// Whether a list of what was chosen is the whole conversation, not an answer to the record's prompt.
bool holds_its_prompt(const Json& chosen, const Json& record) {
  const auto prompt = std::ranges::find_if(prompts, [&](const char* name) { return has_value(record, name); });
  if (chosen.empty() || prompt == prompts.end()) return true;
  const Json& before = record[*prompt];
  if (before.is_array()) {
    return before.size() < chosen.size() && std::equal(before.begin(), before.end(), chosen.begin());
  }
  const auto is_system = [](const Json& turn) { return sharegpt_role(speaker_of(turn)) == "system"; };
  const auto first = std::ranges::find_if_not(chosen, is_system);
  return first != chosen.end() && sharegpt_role(speaker_of(*first)) == "user";
}

void refuse_preferences(const Json& record) {
  if (!has_value(record, "chosen") || !has_value(record, "rejected")) return;
  const Json decoded = list_in_text(record["chosen"]);
  const Json& chosen = decoded.is_null() ? record["chosen"] : decoded;
  ReadingOptions options(record);
  if (chosen.is_array() && holds_its_prompt(chosen, record)) {
    const char* shape = shape_of_list(chosen);
    options.rename("chosen", shape == nullptr ? "messages" : shape).rename_system();
    if (has_value(record, "prompt")) options.leave_out("prompt");
  } else if (chosen.is_string() && first_of(prompts, record) == nullptr) {
    options.take_text("chosen");
  } else {
    return;  // an answer to a prompt
  }
  refuse_preference(options);
}

/// Whether a value can be the completion of a prompt.
bool can_complete(const Json& value) { return value.is_string() || is_answer(value); }

/// Whether a value can be the prompt.
bool can_ask(const Json& value) {
  return value.is_string() || (value.is_array() && !value.empty() && value.front().is_object());
}

struct Pair {
  std::string question, answer;
};

/// Refuses an answer of messages to a question in two fields, which no shape has.
void refuse_lost_input(const Json& record, const Pair& pair) {
  const auto& [question, answer] = pair;
  const char* input = input_of(record, question);
  if (record[answer].is_string() || is_list(record, question) || input == nullptr || is_empty(record[input])) return;
  refuse_record(
      fmt::format("it has '{0}', '{1}' and '{2}', a question in two fields and an answer of messages: write "
                  "all of them as 'messages'",
                  question, input, answer));
}

/// Options for a question and an answer under these names. A conversation is made of them where the record has more to
/// say before the question.
ReadingOptions options_of_pair(const Json& record, const Pair& pair) {
  const auto& [question, answer] = pair;
  ReadingOptions options(record);
  if (is_list(record, question) || !record[answer].is_string()) {
    return options.rename(question, "prompt").rename(answer, "completion").rename_system();
  }
  const char* input = input_of(record, question);
  const bool has_more = input != nullptr || first_of(system_names, record) != nullptr || record.contains("history");
  if (!has_more) return options.rename(question, "prompt").rename(answer, "completion");
  options.rename(question, "instruction");
  if (input != nullptr) options.rename(input, "input");
  return options.rename(answer, "output").rename_system();
}

/// The field of this name in small letters that holds what `is_meant` says; "": none.
template <class IsMeant>
std::string field_called(const Json& record, std::string_view name, const IsMeant& is_meant) {
  std::string found;
  for (const auto& [key, value] : record.items()) {
    const bool is_called_so =
        std::ranges::equal(key, name, [](unsigned char a, char b) { return std::tolower(a) == b; });
    if (is_called_so && is_meant(value) && (found.empty() || key == name)) found = key;
  }
  return found;
}

std::optional<Pair> pair_in(const Json& record) {
  for (const auto& [question, answer] : pairs) {
    Pair pair = {field_called(record, question, can_ask), field_called(record, answer, can_complete)};
    if (!pair.question.empty() && !pair.answer.empty()) return pair;
  }
  for (const char* name : questions) {
    Pair pair = {field_called(record, name, can_ask), ""};
    if (pair.question.empty()) continue;
    std::vector<std::string> all = other_answers(record, pair.question, "");
    if (all.empty()) all.push_back(field_called(record, "content", can_complete));
    if (all.front().empty()) continue;
    const auto thoughts = thoughts_in(record, all.front(), all);
    pair.answer = thoughts ? thoughts->answer : all.front();
    return pair;
  }
  return std::nullopt;
}

void refuse_other_pairs(const Json& record) {
  const std::optional<Pair> pair = pair_in(record);
  if (!pair) return;
  const auto& [question, answer] = *pair;
  refuse_lost_input(record, *pair);
  const ReadingOptions options = options_of_pair(record, *pair);
  if (answer == "chosen") refuse_preference(options);
  const std::vector<std::string> others = other_answers(record, question, answer);
  const auto thoughts = thoughts_in(record, answer, others);
  const std::string choice =
      others.empty() ? "" : fmt::format(", or another answer in its place (it may be in {} too)", listed(others));
  refuse_record(fmt::format("it has '{}' and '{}', and no 'prompt' and 'completion': give {}{}{}{}", question, answer,
                            options.words(), choice, options.loss(),
                            thoughts ? advice_on_thoughts(record, question, *thoughts) : ""));
}

}  // namespace

void refuse_other_names(const Json& record) {
  if (has_value(record, "prompt") && record["prompt"].is_object() && has_value(record["prompt"], "replies")) {
    refuse_record(
        "it is a tree of messages ('replies'), and a record is one conversation: write one of 'messages' for "
        "each path from 'prompt' to a last reply");
  }
  if (has_value(record, "prompt") && has_value(record, "instruction") && has_value(record, "output")) {
    refuse_record(
        "it has 'instruction' and 'output', and a 'prompt' that is made of them: give --ignore_fields prompt");
  }
  refuse_functions_for_query(record);
  refuse_lists_of_exchanges(record);
  refuse_preferences(record);
  refuse_other_pairs(record);
  refuse_other_lists(record);
  refuse_transcripts(record);
  for (const char* name : texts) {
    if (!has_value(record, name) || !record[name].is_string()) continue;
    ReadingOptions options(record);
    options.take_text(name);
    refuse_record(fmt::format("it has '{}', and no 'text': give {}{}", name, options.words(), options.loss()));
  }
  refuse_turns_of_other_names(record);
  refuse_lists_of_records(record);
}

}  // namespace sft::prepare
