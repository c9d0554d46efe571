// SPDX-License-Identifier: Apache-2.0
#include "jinja/lexer.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "jinja/failure.hpp"
#include "jinja/unicode.hpp"

namespace sft::jinja {

namespace {

constexpr const char* mend = "correct the template";

/// With every kind of line break as '\n', and without the last one.
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      text.push_back('\n');
    } else {
      text.push_back(source[i]);
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_digit_byte(char c) { return c >= '0' && c <= '9'; }
bool is_name_begin(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_byte(char c) { return is_name_begin(c) || is_digit_byte(c); }

/// The sign behind the opening or before the closing of a tag: '-', '+' or 0.
char sign_at(std::string_view source, std::size_t position) {
  const char c = position < source.size() ? source[position] : '\0';
  return c == '-' || c == '+' ? c : '\0';
}

/// The character of exactly `count` hexadecimal digits at `position`, which moves behind them.
CodePoint read_hexadecimal(std::string_view literal, std::size_t& position, std::size_t count) {
  const std::string_view digits = literal.substr(position, count);
  CodePoint character = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), character, 16);
  if (digits.size() != count || error != std::errc{} || rest != digits.data() + count || digits[0] == '-') {
    throw Failure(fmt::format("an escape in a string needs {} hexadecimal digits", count));
  }
  position += count;
  return character;
}

CodePoint read_octal(std::string_view literal, std::size_t& position) {
  CodePoint character = 0;
  for (int i = 0; i < 3 && position < literal.size() && literal[position] >= '0' && literal[position] <= '7'; ++i) {
    character = character * 8 + (literal[position++] - '0');
  }
  return character;
}

void append_escape(std::string& text, std::string_view literal, std::size_t& position) {
  const char kind = literal[position];
  static constexpr std::string_view letters = "\\'\"abfnrtv";
  static constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
  if (const std::size_t found = letters.find(kind); found != std::string_view::npos) {
    ++position;
    text.push_back(meanings[found]);
  } else if (kind == '\n') {
    ++position;
  } else if (kind >= '0' && kind <= '7') {
    append_code_point(text, read_octal(literal, position));
  } else if (kind == 'x' || kind == 'u' || kind == 'U') {
    ++position;
    append_code_point(text, read_hexadecimal(literal, position, kind == 'x' ? 2 : (kind == 'u' ? 4 : 8)));
  } else if (kind == 'N') {
    fail_unsupported("a character by its name (\\N)");
  } else {
    text.push_back('\\');
  }
}

/// What stands between the quotes of a string literal, with Python's escapes replaced. Fails on a broken escape and on
/// \N{...}.
std::string unescape(std::string_view literal) {
  std::string text;
  for (std::size_t position = 0; position < literal.size();) {
    if (literal[position] != '\\') {
      text.push_back(literal[position++]);
      continue;
    }
    ++position;
    if (position == literal.size()) throw Failure("a string ends in a backslash");
    append_escape(text, literal, position);
  }
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) read_data();
    push(Token::Kind::end);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw_at_line(line_, why, mend); }

  [[nodiscard]] bool at(std::string_view text) const { return source_.compare(position_, text.size(), text) == 0; }

  /// Moves on, counting lines.
  void advance(std::size_t bytes) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(position_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(bytes), '\n'));
    position_ += bytes;
  }

  void skip_spaces() {
    std::size_t end = position_;
    while (end < source_.size()) {
      std::size_t next = end;
      if (!is_space(next_code_point(source_, next))) break;
      end = next;
    }
    advance(end - position_);
  }

  Token& push(Token::Kind kind, std::string text = {}) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    return token;
  }

  /// The next {{, {% or {#; the end if there is none.
  [[nodiscard]] std::size_t find_tag() const {
    for (std::size_t i = position_; (i = source_.find('{', i)) != std::string::npos; ++i) {
      const char next = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return source_.size();
  }

  /// Text up to `end`, without the white space that a tag with this sign takes.
  void push_data(std::size_t end, char sign, bool is_variable) {
    std::size_t kept = end;
    if (sign == '-') {
      while (kept > position_) {
        std::size_t previous =
            position_ +
            previous_position(std::string_view(source_).substr(position_, kept - position_), kept - position_);
        std::size_t next = previous;
        if (!is_space(next_code_point(source_, next))) break;
        kept = previous;
      }
    } else if (sign == '\0' && !is_variable) {
      const std::string_view text = std::string_view(source_).substr(position_, end - position_);
      const std::size_t newline = text.rfind('\n');
      const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_begin > 0 || is_line_start_) && is_blank(text.substr(line_begin))) kept = position_ + line_begin;
    }
    if (kept > position_) push(Token::Kind::data, source_.substr(position_, kept - position_));
    advance(end - position_);
  }

  static bool is_blank(std::string_view text) {
    for (std::size_t position = 0; position < text.size();) {
      if (!is_space(next_code_point(text, position))) return false;
    }
    return true;
  }

  void read_data() {
    const std::size_t tag = find_tag();
    if (tag == source_.size()) {
      push(Token::Kind::data, source_.substr(position_));
      advance(tag - position_);
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(source_, tag + 2);
    push_data(tag, sign, kind == '{');
    advance(sign == '\0' ? 2 : 3);
    if (kind == '#') return skip_comment();
    push(kind == '{' ? Token::Kind::variable_begin : Token::Kind::block_begin);
    skip_spaces();
    if (kind == '%' && at("raw") && (position_ + 3 == source_.size() || !is_name_byte(source_[position_ + 3]))) {
      // What follows would not be read as a template.
      throw_at_line(line_, "the statement 'raw' is not supported", "write the template without it");
    }
    read_tag(kind == '{');
  }

  /// The closing of a block or a comment: two bytes with a sign before them.
  void close_block() {
    const char sign = sign_at(source_, position_);
    advance(sign == '\0' ? 2 : 3);
    if (sign == '-') skip_spaces();
    if (sign == '\0' && at("\n")) advance(1);
    is_line_start_ = source_[position_ - 1] == '\n';
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", position_);
    if (end == std::string::npos) fail("a comment has no end");
    const bool has_sign = end > position_ && sign_at(source_, end - 1) != '\0';
    advance(end - position_ - (has_sign ? 1 : 0));
    close_block();
  }

  void read_tag(bool is_variable) {
    std::vector<char> open;
    while (true) {
      skip_spaces();
      if (position_ >= source_.size()) fail(is_variable ? "a {{ has no }}" : "a {% has no %}");
      if (open.empty() && is_variable && (at("}}") || at("-}}"))) {
        const bool takes_spaces = at("-");
        push(Token::Kind::variable_end);
        advance(takes_spaces ? 3 : 2);
        if (takes_spaces) skip_spaces();
        is_line_start_ = source_[position_ - 1] == '\n';
        return;
      }
      if (open.empty() && !is_variable && (at("%}") || at("-%}") || at("+%}"))) {
        push(Token::Kind::block_end);
        close_block();
        return;
      }
      read_token(open);
    }
  }

  void read_token(std::vector<char>& open) {
    const char c = source_[position_];
    if (is_digit_byte(c)) return read_number();
    if (is_name_begin(c)) return read_name();
    if (c == '\'' || c == '"') return read_string();
    static constexpr std::array<std::string_view, 6> long_symbols = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view symbol : long_symbols) {
      if (at(symbol)) {
        push(Token::Kind::symbol, std::string(symbol));
        return advance(symbol.size());
      }
    }
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      fail(fmt::format("the character '{}' has no meaning here", c));
    }
    if (c == '(') open.push_back(')');
    if (c == '[') open.push_back(']');
    if (c == '{') open.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(fmt::format("the bracket '{}' closes none", c));
      open.pop_back();
    }
    push(Token::Kind::symbol, std::string(1, c));
    advance(1);
  }

  void read_name() {
    std::size_t end = position_;
    while (end < source_.size() && is_name_byte(source_[end])) {
      if (is_name_begin(source_[end]) && static_cast<unsigned char>(source_[end]) >= 0x80) {
        std::size_t next = end;
        if (!is_word(next_code_point(source_, next))) fail("a character is none of an identifier");
        end = next;
      } else {
        ++end;
      }
    }
    push(Token::Kind::name, source_.substr(position_, end - position_));
    advance(end - position_);
  }

  void read_string() {
    const char quote = source_[position_];
    std::size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string has no end");
    try {
      push(Token::Kind::string, unescape(std::string_view(source_).substr(position_ + 1, end - position_ - 1)));
    } catch (const Failure& failure) {
      fail(failure.what());
    }
    advance(end + 1 - position_);
  }

  /// Digits from `i` on, with single underscores between them.
  [[nodiscard]] std::size_t end_of_digits(std::size_t i) const {
    while (i < source_.size()) {
      if (is_digit_byte(source_[i])) {
        ++i;
      } else if (source_[i] == '_' && i + 1 < source_.size() && is_digit_byte(source_[i + 1])) {
        i += 2;
      } else {
        break;
      }
    }
    return i;
  }

  void read_number() {
    const bool is_index = position_ > 0 && source_[position_ - 1] == '.';
    std::size_t end = end_of_digits(position_);
    bool is_floating = false;
    const auto digit_at = [&](std::size_t i) { return i < source_.size() && is_digit_byte(source_[i]); };
    const auto byte_at = [&](std::size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    if (!is_index) {
      if (byte_at(end) == '.' && digit_at(end + 1)) {
        end = end_of_digits(end + 1);
        is_floating = true;
      }
      if (byte_at(end) == 'e' || byte_at(end) == 'E') {
        const std::size_t digits = end + (byte_at(end + 1) == '+' || byte_at(end + 1) == '-' ? 2 : 1);
        if (digit_at(digits)) {
          end = end_of_digits(digits);
          is_floating = true;
        }
      }
    }
    is_floating ? push_floating(end) : push_integer(end);
  }

  void push_integer(std::size_t end) {
    const char kind = position_ + 1 < source_.size() ? static_cast<char>(source_[position_ + 1] | 0x20) : '\0';
    if (source_[position_] == '0' && (kind == 'x' || kind == 'o' || kind == 'b')) {
      throw_at_line(line_, fmt::format("a number that begins with 0{} is not supported", kind),
                    "write it as a decimal number");
    }
    const std::string digits = digits_up_to(end);
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
      fail(fmt::format("the number {} begins with 0", digits));
    }
    Token& token = push(Token::Kind::integer, digits);
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer);
    if (error != std::errc{}) fail(fmt::format("the number {} does not fit 64 bits", digits));
    advance(end - position_);
  }

  void push_floating(std::size_t end) {
    const std::string digits = digits_up_to(end);
    push(Token::Kind::floating, digits).floating = std::strtod(digits.c_str(), nullptr);
    advance(end - position_);
  }

  /// Without underscores.
  [[nodiscard]] std::string digits_up_to(std::size_t end) const {
    std::string digits = source_.substr(position_, end - position_);
    std::erase(digits, '_');
    return digits;
  }

  const std::string source_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace sft::jinja
