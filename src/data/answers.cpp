// SPDX-License-Identifier: Apache-2.0
#include "data/answers.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>

#include "data/sharegpt.hpp"

namespace sft::data {

namespace {

/// The likelier names first.
constexpr std::array answers = {"chosen",        "completion",         "response",         "answer",
                                "output",        "solution",           "target",           "targets",
                                "assistant",     "generated_solution", "generation",       "reply",
                                "chosen_answer", "chosen_response",    "reference_answer", "expected_answer",
                                "ground_truth"};
constexpr std::array labels = {"label", "kto_tag", "desirable", "is_desirable"};

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
  const auto found = std::ranges::find_if(answers, holds_one);
  return found == answers.end() ? "" : *found;
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
  const char* ignored = has_value(record, "prompt") ? " --ignore_fields prompt" : "";
  const std::string own = answer == "completion" ? "" : fmt::format(",{}=completion", answer);
  refuse_record(fmt::format("{}: --rename {}=prompt{}{} trains on that answer", problem, key, own, ignored));
}

}  // namespace sft::data
