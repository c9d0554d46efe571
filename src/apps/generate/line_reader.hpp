// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lines that a person types, or a program writes.

#include <memory>
#include <string>

namespace sft::apps {

/// Standard input, line by line. On a terminal a line can be edited, with the lines before it as history.
class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Ending {
    newline,
    interrupt,    ///< Ctrl-C, on a terminal; the text is what stood there
    end_of_input  ///< there is no text
  };
  struct Line {
    Ending ending;
    std::string text;  ///< UTF-8 if it was typed, else any bytes; without its end
  };

  /// Whether a person types: input and output are a terminal.
  [[nodiscard]] bool is_terminal() const { return editor_ != nullptr; }
  /// `prompt` stands before the line on a terminal.
  [[nodiscard]] Line read(const char* prompt);

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;  ///< null: no terminal
};

}  // namespace sft::apps
