// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program says of one thing after the other: a name on the left, a text on the right, broken between words where
// a line would be too long to read.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sft {

class LabelledLines {
 public:
  /// Lines have at most this many characters, unless a word is longer.
  explicit LabelledLines(std::size_t max_width = 100) : max_width_(max_width) {}

  /// An empty text has no line. An empty label continues what is above.
  void add(std::string label, std::string text);
  /// All lines, each ended, two spaces in front, the texts below each other.
  [[nodiscard]] std::string text() const;

 private:
  std::size_t max_width_;
  std::vector<std::pair<std::string, std::string>> lines_;
};

/// `text` cut at blanks into pieces of at most `width` characters; a longer word is a piece of its own.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, std::size_t width);

}  // namespace sft
