// SPDX-License-Identifier: Apache-2.0
#include "answer_printer.hpp"

#include <cstdio>

#include "sft/core/log.hpp"

namespace sft::apps {

std::size_t settled_length(std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  while (text.ends_with(replacement)) text.remove_suffix(replacement.size());
  // A character has at most 4 bytes: look for the first of one that lacks some.
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t length = byte < 0xC0U ? 1 : byte < 0xE0U ? 2 : byte < 0xF0U ? 3 : 4;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

void AnswerPrinter::write(std::string_view text, std::size_t end) {
  if (end <= num_shown_bytes_) return;
  const std::string shown = printable(text.substr(num_shown_bytes_, end - num_shown_bytes_), /*keep_layout=*/true);
  std::fputs(shown.c_str(), stdout);
  std::fflush(stdout);
  num_shown_bytes_ = end;
}

void AnswerPrinter::show(std::string_view text) { write(text, settled_length(text)); }

void AnswerPrinter::finish(std::string_view text) {
  write(text, text.size());
  num_shown_bytes_ = 0;
  log_info("");
}

}  // namespace sft::apps
