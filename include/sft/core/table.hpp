// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text in aligned columns.

#include <cstddef>
#include <string>
#include <vector>

namespace sft {

enum class Align { left, right };

class Table {
 public:
  /// One alignment a column; every line begins with `indent` spaces.
  explicit Table(std::vector<Align> columns, std::size_t indent = 0);

  /// One cell a column.
  void add(std::vector<std::string> cells);
  /// A line of dashes.
  void add_rule();
  /// All lines, each ended; columns two spaces apart, none at the end of a line.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<Align> columns_;
  std::size_t indent_;
  std::vector<std::vector<std::string>> rows_;  // a rule has no cells
};

}  // namespace sft
