// SPDX-License-Identifier: Apache-2.0
#include "prepare/answers.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>

#include "prepare/jq_commands.hpp"
#include "prepare/reading_options.hpp"
#include "prepare/sharegpt.hpp"
#include "sft/prepare/field_names.hpp"

namespace sft::prepare {

namespace {

/// The likelier names first.
constexpr std::array answers = {"chosen",        "completion",         "response",         "answer",
                                "output",        "solution",           "target",           "targets",
                                "assistant",     "generated_solution", "generation",       "reply",
                                "chosen_answer", "chosen_response",    "reference_answer", "expected_answer",
                                "ground_truth"};
constexpr std::array labels = {"label", "kto_tag", "desirable", "is_desirable"};

bool is_thoughts(const std::string& name, const Json& value) {
  constexpr std::array switches = {"on", "off", "true", "false", "yes", "no", "high", "medium", "low"};
  if (!names_thoughts(name) || is_empty(value)) return false;
  if (value.is_string()) return std::ranges::find(switches, value.get<std::string>()) == switches.end();
  return value.is_array() && std::ranges::all_of(value, [](const Json& part) { return part.is_string(); });
}

bool is_message(const Json& value) { return value.is_object() && !speaker_of(value).empty(); }

bool is_false(std::string_view name, const Json& value) {
  if (value.is_string()) return value == "false" || value == "False";
  return value == false || (name == "kto_tag" && value == 0);  // a label of 0 may be a class
}

}  // namespace

bool lacks_answer(const Json& turns) {
  if (!turns.is_array() || turns.empty() || exchange_in(turns.back())) return false;
  if (turns.back().is_string()) return turns.size() % 2 == 1;  // the user speaks first
  const std::string role = sharegpt_role(speaker_of(turns.back()));
  constexpr std::array others = {"user", "tool", "system", "developer"};
  return std::ranges::find(others, role) != others.end();
}

bool is_answer(const Json& value) {
  if (value.is_array()) return !value.empty() && std::ranges::all_of(value, is_message);
  return value.is_string() ? !is_empty(value) : is_message(value);
}

std::string answer_in(const Json& record) {
  const auto holds_one = [&](const char* name) { return has_value(record, name) && is_answer(record[name]); };
  if (const auto found = std::ranges::find_if(answers, holds_one); found != answers.end()) return *found;
  for (const auto& [name, value] : record.items()) {
    if (names_answer(name) && is_answer(value)) return name;
  }
  return "";
}

std::vector<std::string> other_answers(const Json& record, const std::string& question, const std::string& answer) {
  std::vector<std::string> others;
  for (const auto& [name, value] : record.items()) {
    if (name != question && name != answer && names_answer(name) && is_answer(value)) others.push_back(name);
  }
  return others;
}

std::optional<Thoughts> thoughts_in(const Json& record, const std::string& answer,
                                    const std::vector<std::string>& others) {
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) {
    if (is_thoughts(name, value)) names.push_back(name);
  }
  if (names.empty()) return std::nullopt;
  std::vector<std::string> all = {answer};
  all.insert(all.end(), others.begin(), others.end());
  for (const std::string& one : all) {
    for (const std::string& name : names) {
      if (record[one].is_string() && words_of_name(name).front() == words_of_name(one).front())
        return Thoughts{name, one};
    }
  }
  const auto is_attempt = [](const std::string& one) { return words_of_name(one).back() == "attempt"; };
  if (const auto attempt = std::ranges::find_if(all, is_attempt);
      attempt != all.end() && record[*attempt].is_string()) {
    return Thoughts{names.front(), *attempt};  // the other answer is the one of the book
  }
  return record[answer].is_string() ? std::optional(Thoughts{names.front(), answer}) : std::nullopt;
}

void refuse_unwanted(const Json& record) {
  for (const char* name : labels) {
    const auto label = record.find(name);
    if (label == record.end() || !is_false(name, *label)) continue;
    refuse_record(
        fmt::format("its '{}' is false, which says that its answer is not wanted; --ignore_fields {} trains on it all "
                    "the same, and --on_error skip leaves such records out",
                    name, name));
  }
}

void refuse_unread_answer(const Json& record, const char* key) {
  const Json& turns = record[key];
  if (!lacks_answer(turns)) return;
  const std::string answer = answer_in(record);
  if (answer.empty()) return;
  const std::string problem =
      fmt::format("its '{}' ends before the assistant answers, and '{}' holds an answer", key, answer);
  if (!std::ranges::all_of(turns, is_message)) {
    refuse_record(fmt::format("{}: write that as the last turn of '{}'", problem, key));
  }
  ReadingOptions options(record);
  options.rename(key, "prompt").rename(answer, "completion").rename_system();
  const std::vector<std::string> others = other_answers(record, key, answer);
  const std::string choice = others.empty() ? "" : fmt::format(" (so may {})", listed(others));
  const auto thoughts = thoughts_in(record, answer, others);
  refuse_record(fmt::format("{}{}: {} trains on that answer{}{}", problem, choice, options.words(), options.loss(),
                            thoughts ? advice_on_thoughts(record, key, *thoughts) : ""));
}

}  // namespace sft::prepare
