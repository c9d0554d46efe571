// SPDX-License-Identifier: Apache-2.0
#include "text/known_patterns.hpp"

#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr bool is_line_end(char c) { return c == '\r' || c == '\n'; }

class Cutter {
 public:
  explicit Cutter(std::string_view text) : text_(text) {}

  /// The end of the run of characters of one class from `place` on.
  [[nodiscard]] std::size_t run_end(std::size_t place, CharacterClass kind) const {
    while (place < text_.size()) {
      const Character c = character_at(text_, place);
      if (class_of(c.code_point) != kind) break;
      place += c.size;
    }
    return place;
  }

  /// 's, 't, 're, 've, 'm, 'll or 'd at `place`: its end, or `place` if there is none.
  template <bool any_case>
  [[nodiscard]] std::size_t contraction_end(std::size_t place) const {
    const auto letter = [this](std::size_t at) {
      const char c = at < text_.size() ? text_[at] : '\0';
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(place + 1), second = letter(place + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return place + 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) {
      return place + 3;
    }
    // The long s, which is an s in another case.
    if (any_case && text_.substr(place + 1).starts_with("\xC5\xBF")) return place + 3;
    return place;
  }

  /// \s+(?!\S)|\s+ where blanks begin: all but the last one, unless they end the text or there is only one.
  [[nodiscard]] std::size_t blanks_end(std::size_t place) const {
    const std::size_t end = run_end(place, CharacterClass::space);
    if (end == text_.size()) return end;
    const std::size_t last = end - character_before(text_, end).size;
    return last > place ? last : end;
  }

  [[nodiscard]] std::size_t gpt2_word_end(std::size_t place) const {
    if (text_[place] == '\'') {
      if (const std::size_t end = contraction_end<false>(place); end > place) return end;
    }
    const std::size_t begin = text_[place] == ' ' && place + 1 < text_.size() ? place + 1 : place;
    const CharacterClass kind = class_of(character_at(text_, begin).code_point);
    return kind == CharacterClass::space ? blanks_end(place) : run_end(begin, kind);
  }

  template <int max_digits>
  [[nodiscard]] std::size_t qwen2_word_end(std::size_t place) const {
    const Character first = character_at(text_, place);
    if (first.code_point == '\'') {
      if (const std::size_t end = contraction_end<true>(place); end > place) return end;
    }
    const CharacterClass kind = class_of(first.code_point);
    const std::size_t next = place + first.size;
    if (kind == CharacterClass::letter) return run_end(next, kind);
    if (kind == CharacterClass::number) return digits_end(next, max_digits - 1);
    const CharacterClass next_kind =
        next < text_.size() ? class_of(character_at(text_, next).code_point) : CharacterClass::space;
    if (next_kind == CharacterClass::letter && !is_line_end(text_[place])) return run_end(next, next_kind);
    if (kind == CharacterClass::other || (text_[place] == ' ' && next_kind == CharacterClass::other)) {
      return line_ends_end(run_end(next, CharacterClass::other));
    }
    return lines_end(place);
  }

 private:
  [[nodiscard]] std::size_t digits_end(std::size_t place, int num_digits) const {
    for (; num_digits > 0 && place < text_.size(); --num_digits) {
      const Character c = character_at(text_, place);
      if (class_of(c.code_point) != CharacterClass::number) break;
      place += c.size;
    }
    return place;
  }

  [[nodiscard]] std::size_t line_ends_end(std::size_t place) const {
    while (place < text_.size() && is_line_end(text_[place])) ++place;
    return place;
  }

  /// \s*[\r\n]+|\s+(?!\S)|\s+ where blanks begin.
  [[nodiscard]] std::size_t lines_end(std::size_t place) const {
    const std::size_t end = run_end(place, CharacterClass::space);
    for (std::size_t i = end; i > place; --i) {
      if (is_line_end(text_[i - 1])) return i;
    }
    return blanks_end(place);
  }

  std::string_view text_;
};

template <std::size_t (Cutter::*word_end)(std::size_t) const>
void cut(std::string_view text, std::vector<ByteRange>& words) {
  words.clear();
  const Cutter cutter(text);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = (cutter.*word_end)(begin);
    words.push_back({begin, end});
    begin = end;
  }
}

}  // namespace

WordCutter find_word_cutter(std::string_view pattern) {
  if (pattern == gpt2_pattern) return cut<&Cutter::gpt2_word_end>;
  if (pattern == qwen2_pattern) return cut<&Cutter::qwen2_word_end<1>>;
  if (pattern == llama3_pattern) return cut<&Cutter::qwen2_word_end<3>>;
  return nullptr;
}

}  // namespace sft::text
