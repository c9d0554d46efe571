// SPDX-License-Identifier: Apache-2.0
#include "sft/core/table.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <numeric>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft {

namespace {

constexpr const char* gap = "  ";

}  // namespace

Table::Table(std::vector<Align> columns, std::size_t indent) : columns_(std::move(columns)), indent_(indent) {}

void Table::add(std::vector<std::string> cells) {
  SFT_ENSURE(cells.size() == columns_.size(), "a table's row has one cell a column");
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(columns_.size());
  for (const std::vector<std::string>& cells : rows_) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  return widths;
}

std::string Table::text() const {
  const std::vector<std::size_t> width = widths();
  const std::size_t total = std::accumulate(width.begin(), width.end(), std::string(gap).size() * (width.size() - 1));
  std::string text;
  for (const std::vector<std::string>& cells : rows_) {
    std::string line = cells.empty() ? std::string(total, '-') : "";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(width[i] - cells[i].size(), ' ');
      line += (i == 0 ? "" : gap) + (columns_[i] == Align::left ? cells[i] + padding : padding + cells[i]);
    }
    text += fmt::format("{:{}}{}\n", "", indent_, line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return text;
}

}  // namespace sft
