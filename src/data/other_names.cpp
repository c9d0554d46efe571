// SPDX-License-Identifier: Apache-2.0
#include "data/other_names.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/answers.hpp"
#include "data/sharegpt.hpp"

namespace sft::data {

namespace {

using Names = std::pair<const char*, const char*>;

/// Names of a question and its answer, the likelier ones first.
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
                              Names{"INSTRUCTION", "RESPONSE"},
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

constexpr std::array system_names = {"system", "system_prompt", "system_message", "system_instruction"};
constexpr std::array input_names = {"input", "context"};
constexpr std::array texts = {"content", "document", "article", "body", "passage"};

/// Options that read a record: names and what they become, and names that are left out.
class ReadingOptions {
 public:
  explicit ReadingOptions(const Json& record) : record_(record) {}

  ReadingOptions& rename(std::string_view from, std::string_view to) {
    if (from == to) return *this;
    if (has_value(record_, to) && std::ranges::find(renamed_, to) == renamed_.end()) leave_out(to);
    renamed_.emplace_back(from);
    renames_ += fmt::format("{}{}={}", renames_.empty() ? "" : ",", from, to);
    return *this;
  }
  ReadingOptions& leave_out(std::string_view name) {
    left_out_ += fmt::format("{}{}", left_out_.empty() ? "" : ",", name);
    return *this;
  }
  /// The field of the record that is the system message under another name.
  ReadingOptions& rename_system() {
    if (const char* name = first_of(system_names)) rename(name, "system");
    return *this;
  }
  [[nodiscard]] std::string words() const {
    return fmt::format("{}{}{}{}{}", renames_.empty() ? "" : "--rename ", renames_,
                       renames_.empty() || left_out_.empty() ? "" : " ", left_out_.empty() ? "" : "--ignore_fields ",
                       left_out_);
  }

  /// The first of these names that the record has, though its value may be null; nullptr: none.
  template <std::size_t count>
  [[nodiscard]] const char* first_of(const std::array<const char*, count>& names) const {
    const auto found = std::ranges::find_if(names, [&](const char* name) { return record_.contains(name); });
    return found == names.end() ? nullptr : *found;
  }

 private:
  const Json& record_;
  std::vector<std::string> renamed_;
  std::string renames_, left_out_;
};

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
  for (const auto& [name, value] : record.items()) {
    const char* shape = shape_of_list(value);
    if (shape == nullptr) continue;
    const bool is_named_so = std::ranges::find(names_of_chats, std::string_view(name)) != names_of_chats.end();
    if (value.front().is_string() && !is_named_so) continue;
    ReadingOptions options(record);
    options.rename(name, shape).rename_system();
    refuse_record(fmt::format("it has a list '{}', and no 'messages': give {}", name, options.words()));
  }
}

[[noreturn]] void refuse_list_of_records(const std::string& name) {
  refuse_record(fmt::format(
      "it is one object whose '{0}' is a list of objects, as a file of records may be wrapped, and a record "
      "is one of them: `jq -c '.[\"{0}\"][]' FILE` makes JSON lines of these",
      name));
}

/// Lists of questions and answers in an object that says little else, by names that files of records give them.
void refuse_lists_of_exchanges(const Json& record) {
  constexpr std::array names_of_files = {"data", "rows", "records", "examples", "instances", "train", "samples"};
  for (const char* name : names_of_files) {
    const auto is_exchange = [](const Json& entry) { return exchange_in(entry).has_value(); };
    if (is_list(record, name) && std::ranges::all_of(record[name], is_exchange)) refuse_list_of_records(name);
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

[[noreturn]] void refuse_preference(const std::string& options) {
  refuse_record(
      fmt::format("it is a record of preferences ('chosen' and 'rejected'), which this program does not train "
                  "on; {} trains on what was chosen",
                  options));
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
  const Json& chosen = record["chosen"];
  std::string options;
  if (chosen.is_array() && holds_its_prompt(chosen, record)) {
    ReadingOptions list(record);
    const char* shape = shape_of_list(chosen);
    list.rename("chosen", shape == nullptr ? "messages" : shape).rename_system();
    if (has_value(record, "prompt")) list.leave_out("prompt");
    options = list.words();
  } else if (chosen.is_string() && ReadingOptions(record).first_of(prompts) == nullptr) {
    options = "--dataset_text_field chosen";
  } else {
    return;  // an answer to a prompt
  }
  refuse_preference(options);
}

/// The field of text that belongs to a question, though it may be null; nullptr: none.
const char* input_of(const Json& record, std::string_view question) {
  const auto is_input = [&](const char* name) {
    const bool is_text = record.contains(name) && (record[name].is_string() || record[name].is_null());
    return is_text && name != question;
  };
  const auto found = std::ranges::find_if(input_names, is_input);
  return found == input_names.end() ? nullptr : *found;
}

/// Whether a value can be the completion of a prompt.
bool can_complete(const Json& value) { return value.is_string() || is_answer(value); }

/// Refuses an answer of messages to a question in two fields, which no shape has.
void refuse_lost_input(const Json& record, const Names& names) {
  const auto [question, answer] = names;
  const char* input = input_of(record, question);
  if (record[answer].is_string() || is_list(record, question) || input == nullptr || is_empty(record[input])) return;
  refuse_record(
      fmt::format("it has '{0}', '{1}' and '{2}', a question in two fields and an answer of messages: write "
                  "all of them as 'messages'",
                  question, input, answer));
}

/// Options for a question and an answer under these names. A conversation is made of them where the record has more to
/// say before the question.
std::string options_of_pair(const Json& record, const Names& names) {
  const auto [question, answer] = names;
  ReadingOptions options(record);
  if (is_list(record, question) || !record[answer].is_string()) {
    return options.rename(question, "prompt").rename(answer, "completion").rename_system().words();
  }
  const char* input = input_of(record, question);
  const bool has_more = input != nullptr || options.first_of(system_names) != nullptr || record.contains("history");
  if (!has_more) return options.rename(question, "prompt").rename(answer, "completion").words();
  options.rename(question, "instruction");
  if (input != nullptr) options.rename(input, "input");
  return options.rename(answer, "output").rename_system().words();
}

void refuse_other_pairs(const Json& record) {
  for (const Names& names : pairs) {
    const auto [question, answer] = names;
    if (!has_value(record, question) || !has_value(record, answer)) continue;
    if (!(record[question].is_string() || is_list(record, question)) || !can_complete(record[answer])) continue;
    refuse_lost_input(record, names);
    const std::string options = options_of_pair(record, names);
    if (std::string_view(answer) == "chosen") refuse_preference(options);
    refuse_record(
        fmt::format("it has '{}' and '{}', and no 'prompt' and 'completion': give {}", question, answer, options));
  }
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
  refuse_lists_of_exchanges(record);
  refuse_preferences(record);
  refuse_other_pairs(record);
  refuse_other_lists(record);
  for (const char* name : texts) {
    if (!has_value(record, name) || !record[name].is_string()) continue;
    refuse_record(fmt::format("it has '{}', and no 'text': give --dataset_text_field {}", name, name));
  }
  refuse_lists_of_records(record);
}

}  // namespace sft::data
