// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text on a terminal while a model writes it.

#include <cstddef>
#include <string>
#include <string_view>

namespace sft::apps {

/// Bytes of `text` that stay as they are when more tokens come: without a character at its end that is not whole yet,
/// and without marks for one that is not (U+FFFD).
[[nodiscard]] std::size_t settled_length(std::string_view text);

/// Prints what is new in a growing text.
class AnswerPrinter {
 public:
  /// `text`: all of it so far.
  void show(std::string_view text);
  /// The rest of it, and the end of the line.
  void finish(std::string_view text);

 private:
  void write(std::string_view text, std::size_t end);

  std::size_t num_shown_bytes_ = 0;
};

}  // namespace sft::apps
