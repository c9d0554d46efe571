// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lines of an .ini file.

#include <string>
#include <vector>

namespace sft::config {

/// A `[section]` line (no name) or a `name = value` line.
struct IniLine {
  int number = 0;       ///< from 1
  std::string section;  ///< that the line is, or stands under; empty above the first
  std::string name;
  std::string value;  ///< trimmed, its quotes untouched
};

/// Reads the text: `[section]` and `name = value` lines. A comment begins with # or ; at the start of a line or behind
/// white space, outside of quotes. A byte order mark is skipped. Throws a configuration Error that names `source` and
/// the line for any other line.
[[nodiscard]] std::vector<IniLine> read_ini(const std::string& text, const std::string& source);

/// "SOURCE:12"
[[nodiscard]] std::string place_of(const std::string& source, int line_number);

}  // namespace sft::config
