// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options that a refusal tells to give.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "prepare/record.hpp"

namespace sft::prepare {

/// Names that the system message has in a record.
inline constexpr std::array system_names = {"system", "system_prompt", "system_message", "system_instruction"};

/// The first of these names that the record has, though its value may be null; nullptr: none.
template <std::size_t count>
[[nodiscard]] const char* first_of(const std::array<const char*, count>& names, const Json& record) {
  const auto found = std::ranges::find_if(names, [&](const char* name) { return record.contains(name); });
  return found == names.end() ? nullptr : *found;
}

/// Options that read a record: names and what they become, and names that are left out. It refers to the record.
class ReadingOptions {
 public:
  explicit ReadingOptions(const Json& record) : record_(record) {}

  ReadingOptions& rename(std::string_view from, std::string_view to);
  ReadingOptions& leave_out(std::string_view name);
  /// Renames the field of the record that is the system message under another name.
  ReadingOptions& rename_system();
  /// Takes the text of this field.
  ReadingOptions& take_text(std::string_view name);

  /// The options: "--rename problem=prompt,solution=completion".
  [[nodiscard]] std::string words() const;
  /// "; that leaves out 'source' and 'id'": fields that hold a value, are then not read, and are not among the options;
  /// "": there are none.
  [[nodiscard]] std::string loss() const;

 private:
  [[nodiscard]] bool reads(std::string_view name) const;

  const Json& record_;
  std::vector<std::string> renamed_, targets_, left_out_;
  std::string renames_, text_field_;
};

/// The field of text that belongs to a question, though it may be null; nullptr: none.
[[nodiscard]] const char* input_of(const Json& record, std::string_view question);

/// "'a', 'b' and 2 more"
[[nodiscard]] std::string listed(const std::vector<std::string>& names);

}  // namespace sft::prepare
