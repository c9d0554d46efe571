// SPDX-License-Identifier: Apache-2.0
#include "sft/core/labelled_lines.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "sft/core/table.hpp"

namespace sft {

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> pieces;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ' ');) {
    if (!pieces.empty() && pieces.back().size() + 1 + word.size() <= width) {
      pieces.back() += " " + word;
    } else {
      pieces.push_back(word);
    }
  }
  return pieces;
}

void LabelledLines::add(std::string label, std::string text) {
  if (!text.empty()) lines_.emplace_back(std::move(label), std::move(text));
}

std::string LabelledLines::text() const {
  constexpr std::size_t indent = 2, between = 2;
  std::size_t label_width = 0;
  for (const auto& [label, text] : lines_) label_width = std::max(label_width, label.size());
  const std::size_t taken = indent + label_width + between;
  Table table({Align::left, Align::left}, indent);
  for (const auto& [label, text] : lines_) {
    bool is_first = true;
    for (const std::string& piece : wrapped(text, max_width_ - std::min(max_width_, taken))) {
      table.add({is_first ? label : "", piece});
      is_first = false;
    }
  }
  return table.text();
}

}  // namespace sft
