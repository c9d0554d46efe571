// SPDX-License-Identifier: Apache-2.0
#include "prepare/reading_options.hpp"

#include <fmt/format.h>

namespace sft::prepare {

namespace {

template <class Names>
bool has_name(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_text(const Json& value) { return value.is_string() || value.is_structured(); }

}  // namespace

ReadingOptions& ReadingOptions::rename(std::string_view from, std::string_view to) {
  targets_.emplace_back(to);
  if (from == to) return *this;
  if (has_value(record_, to) && !has_name(renamed_, to)) leave_out(to);
  renamed_.emplace_back(from);
  renames_ += fmt::format("{}{}={}", renames_.empty() ? "" : ",", from, to);
  return *this;
}

ReadingOptions& ReadingOptions::leave_out(std::string_view name) {
  left_out_.emplace_back(name);
  return *this;
}

ReadingOptions& ReadingOptions::rename_system() {
  if (const char* name = first_of(system_names, record_)) rename(name, "system");
  return *this;
}

ReadingOptions& ReadingOptions::take_text(std::string_view name) {
  text_field_ = name;
  return *this;
}

std::string ReadingOptions::words() const {
  std::vector<std::string> words;
  if (!renames_.empty()) words.push_back("--rename " + renames_);
  if (!left_out_.empty()) words.push_back(fmt::format("--ignore_fields {}", fmt::join(left_out_, ",")));
  if (!text_field_.empty()) words.push_back("--dataset_text_field " + text_field_);
  return fmt::format("{}", fmt::join(words, " "));
}

bool ReadingOptions::reads(std::string_view name) const {
  if (has_name(renamed_, name) || has_name(targets_, name) || name == text_field_) return true;
  constexpr std::array of_chats = {"system", "tools", "chat_template_kwargs"};
  if (has_name(targets_, "messages") || has_name(targets_, "conversations"))
    return has_name(of_chats, name) || name == "mask";
  if (has_name(targets_, "instruction")) return has_name(of_chats, name) || name == "input" || name == "history";
  // A prompt and completion that are no messages show none of these.
  return has_name(of_chats, name) && has_name(targets_, "completion");
}

std::string ReadingOptions::loss() const {
  std::vector<std::string> lost, small;  // texts first
  for (const auto& [name, value] : record_.items()) {
    const bool is_lost = !is_empty(value) && !reads(name) && !has_name(left_out_, name);
    if (is_lost) (is_text(value) ? lost : small).push_back(name);
  }
  lost.insert(lost.end(), small.begin(), small.end());
  return lost.empty() ? "" : "; that leaves out " + listed(lost);
}

const char* input_of(const Json& record, std::string_view question) {
  constexpr std::array input_names = {"input", "context"};
  const auto is_input = [&](const char* name) {
    const bool is_text = record.contains(name) && (record[name].is_string() || record[name].is_null());
    return is_text && name != question;
  };
  const auto found = std::ranges::find_if(input_names, is_input);
  return found == input_names.end() ? nullptr : *found;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t max_shown = 10;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), max_shown); ++i) {
    const bool is_last = i > 0 && i + 1 == names.size();
    list += fmt::format("{}'{}'", i == 0 ? "" : is_last ? " and " : ", ", names[i]);
  }
  if (names.size() > max_shown) list += fmt::format(" and {} more", names.size() - max_shown);
  return list;
}

}  // namespace sft::prepare
