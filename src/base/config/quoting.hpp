// SPDX-License-Identifier: Apache-2.0
#pragma once
// Quotes, variables and `~` in the values of .ini files and options, as in a shell: '...' is literal; "..." and plain
// text replace $VAR and ${VAR} by the environment; \" \\ \$ in "..." are the characters. A ~ that begins a plain value
// is the home folder, ~name that of a user. A quote counts where a value or an item begins.
//
// Functions that read throw std::invalid_argument, whose message is what was expected.

#include <string>
#include <vector>

namespace sft::config {

/// The value without quotes around it; nothing is replaced. For numbers, choices and JSON.
[[nodiscard]] std::string unquoted(const std::string& text);

/// The value without quotes, variables and ~ replaced. For texts and paths.
[[nodiscard]] std::string expanded(const std::string& text);

/// The items of a list, separated by white space or commas, each like expanded().
[[nodiscard]] std::vector<std::string> expanded_items(const std::string& text);

/// A text that expanded() reads back as `value`: `value` itself where that does.
[[nodiscard]] std::string quoted(const std::string& value);

/// A text that expanded_items() reads back as the one item `value`.
[[nodiscard]] std::string quoted_item(const std::string& value);

}  // namespace sft::config
