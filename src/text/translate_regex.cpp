// SPDX-License-Identifier: Apache-2.0
// Ruby's regular expressions, as Oniguruma reads them, written for PCRE2. What both read alike is copied. Rewritten
// are: classes whose members differ (\s, \w, \d, \h, \v, \p{...} over a newer Unicode, POSIX brackets), \b, \u, (?m),
// sets in sets, and X{n,m}+ and X{n}?, where the last sign is a quantifier of its own. The rest is refused.

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/regex.hpp"
#include "text/unicode.hpp"

namespace sft::text {

namespace {

constexpr std::string_view space_members =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view non_space_members =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e})"
    R"(\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

/// The property and what it has got since Unicode 14, some of it older characters.
constexpr std::string_view alphabetic_members =
    R"(\p{Alphabetic})"
    R"(\x{363}-\x{36f}\x{897}\x{c04}\x{cf3}\x{f82}-\x{f83}\x{1c89}-\x{1c8a}\x{1dd3}-\x{1de6}\x{a7cb}-\x{a7cd})"
    R"(\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65}\x{10d69}\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4})"
    R"(\x{10efc}\x{11080}-\x{11081}\x{1123f}-\x{11241}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5})"
    R"(\x{113b7}-\x{113c0}\x{113c2}\x{113c5}\x{113c7}-\x{113ca}\x{113cc}-\x{113cd}\x{113d1}\x{113d3})"
    R"(\x{11bc0}-\x{11be0}\x{11f00}-\x{11f10}\x{11f12}-\x{11f3a}\x{11f3e}-\x{11f40}\x{1342f}\x{13441}-\x{13446})"
    R"(\x{13460}-\x{143fa}\x{16100}-\x{1612e}\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a})"
    R"(\x{1e030}-\x{1e06d}\x{1e08f}\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d})"
    R"(\x{31350}-\x{323af})";

std::string hexadecimal(char32_t code_point) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (int shift = 20; shift >= 0; shift -= 4) text += digits[code_point >> static_cast<unsigned>(shift) & 0xFU];
  return "\\x{" + text + "}";
}

/// What the category has got since Unicode 14, which PCRE2 10.42 knows.
std::string list_additions(std::string_view category) {
  std::string members;
  for (const UnicodeAddition& addition : unicode_additions()) {
    const bool is_cased = addition.category == "Lu" || addition.category == "Ll" || addition.category == "Lt";
    if (addition.category.starts_with(category) || (category == "LC" && is_cased)) {
      members += hexadecimal(addition.first) + "-" + hexadecimal(addition.last);
    }
  }
  return members;
}

/// The short name of a category; empty if it is none.
std::string short_category(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 38> names = {{{"Letter", "L"},
                                                                                    {"Cased_Letter", "LC"},
                                                                                    {"Uppercase_Letter", "Lu"},
                                                                                    {"Lowercase_Letter", "Ll"},
                                                                                    {"Titlecase_Letter", "Lt"},
                                                                                    {"Modifier_Letter", "Lm"},
                                                                                    {"Other_Letter", "Lo"},
                                                                                    {"Mark", "M"},
                                                                                    {"Nonspacing_Mark", "Mn"},
                                                                                    {"Spacing_Mark", "Mc"},
                                                                                    {"Enclosing_Mark", "Me"},
                                                                                    {"Number", "N"},
                                                                                    {"Decimal_Number", "Nd"},
                                                                                    {"Letter_Number", "Nl"},
                                                                                    {"Other_Number", "No"},
                                                                                    {"Punctuation", "P"},
                                                                                    {"Connector_Punctuation", "Pc"},
                                                                                    {"Dash_Punctuation", "Pd"},
                                                                                    {"Open_Punctuation", "Ps"},
                                                                                    {"Close_Punctuation", "Pe"},
                                                                                    {"Initial_Punctuation", "Pi"},
                                                                                    {"Final_Punctuation", "Pf"},
                                                                                    {"Other_Punctuation", "Po"},
                                                                                    {"Symbol", "S"},
                                                                                    {"Math_Symbol", "Sm"},
                                                                                    {"Currency_Symbol", "Sc"},
                                                                                    {"Modifier_Symbol", "Sk"},
                                                                                    {"Other_Symbol", "So"},
                                                                                    {"Separator", "Z"},
                                                                                    {"Space_Separator", "Zs"},
                                                                                    {"Line_Separator", "Zl"},
                                                                                    {"Paragraph_Separator", "Zp"},
                                                                                    {"Other", "C"},
                                                                                    {"Control", "Cc"},
                                                                                    {"Format", "Cf"},
                                                                                    {"Surrogate", "Cs"},
                                                                                    {"Private_Use", "Co"},
                                                                                    {"Unassigned", "Cn"}}};
  for (const auto& [long_name, short_name] : names) {
    if (name == long_name || name == short_name) return std::string(short_name);
  }
  return "";
}

class Translator {
 public:
  Translator(const std::string& pattern, bool with_additions) : pattern_(pattern), with_additions_(with_additions) {}

  std::string run() {
    while (!at_end()) translate_next();
    if (!groups_.empty()) refuse("a parenthesis is not closed");
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string additions_of(std::string_view category) const {
    return with_additions_ ? list_additions(category) : "";
  }

  [[nodiscard]] std::string word_members() const {
    // Superscripts and fractions of Latin-1 are words to Oniguruma.
    return R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})" + additions_of("L") + additions_of("M") +
           additions_of("Nd") + additions_of("Nl") + additions_of("Pc");
  }

  [[noreturn]] static void refuse(const std::string& reason) { throw std::invalid_argument(reason); }

  [[nodiscard]] bool at_end() const { return place_ == pattern_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : pattern_[place_]; }
  [[nodiscard]] bool follows(std::string_view text) const { return pattern_.compare(place_, text.size(), text) == 0; }
  char take() {
    if (at_end()) refuse("it ends too early");
    return pattern_[place_++];
  }
  std::string take_until(char end) {
    const std::size_t found = pattern_.find(end, place_);
    if (found == std::string::npos) refuse(std::string("a '") + end + "' is missing");
    std::string text = pattern_.substr(place_, found - place_);
    place_ = found + 1;
    return text;
  }

  void translate_next() {
    const char c = take();
    switch (c) {
      case '(':
        return open_group();
      case ')':
        if (groups_.empty()) refuse("a parenthesis is not opened");
        atom_begin_ = groups_.back();
        groups_.pop_back();
        out_ += ')';
        return;
      case '[':
        begin_atom();
        return translate_set();
      case '\\':
        begin_atom();
        return translate_escape();
      case '*':
      case '+':
      case '?':
        out_ += c;
        if (peek() == '+' || peek() == '?') out_ += take();  // possessive or lazy, to both
        return;
      case '{':
        return translate_counts();
      default:
        if (!is_continuation_byte(c)) begin_atom();
        out_ += c;
    }
  }

  static bool is_continuation_byte(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }
  void begin_atom() { atom_begin_ = out_.size(); }

  void open_group() {
    groups_.push_back(out_.size());
    out_ += '(';
    if (peek() != '?') return;
    out_ += take();
    for (const std::string_view kind : {":", "=", "!", ">", "<=", "<!"}) {
      if (!follows(kind)) continue;
      out_ += kind;
      place_ += kind.size();
      return;
    }
    if (peek() == '#' || peek() == '<' || peek() == '\'') refuse("named groups and comments are not supported");
    while (peek() != ':' && peek() != ')') {
      const char flag = take();
      if (flag != 'i' && flag != 'm' && flag != 'x' && flag != '-')
        refuse("a group begins with (?" + std::string(1, flag));
      if (flag == 'x') refuse("(?x) is not supported");
      out_ += flag == 'm' ? 's' : flag;
    }
    out_ += take();
    if (out_.back() == ')') groups_.pop_back();
  }

  void translate_counts() {
    const std::size_t end = pattern_.find('}', place_);
    std::string counts = end == std::string::npos ? "" : pattern_.substr(place_, end - place_);
    const std::size_t comma = counts.find(',');
    const auto is_number = [](std::string_view text) {
      return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    const std::string least = counts.substr(0, comma),
                      most = comma == std::string::npos ? "" : counts.substr(comma + 1);
    if (!is_number(least) || !is_number(most) || (least.empty() && most.empty())) {
      begin_atom();
      out_ += "\\{";
      return;
    }
    place_ = end + 1;
    out_ += '{' + (least.empty() ? "0" : least) + (comma == std::string::npos ? "" : "," + most) + '}';
    const bool is_exact = comma == std::string::npos;
    if (peek() == '+' || (peek() == '?' && is_exact)) {  // Ruby: a quantifier of the counted atom
      out_.insert(atom_begin_, "(?:");
      out_ += ')';
      out_ += take();
    } else if (peek() == '?') {
      out_ += take();
    }
  }

  /// \p{NAME}, \P{NAME} and \p{^NAME}: the members, and whether they are those outside.
  std::pair<std::string, bool> take_property(char letter) {
    bool is_negated = letter == 'P';
    std::string name(1, take());
    if (name == "{") {
      name = take_until('}');
      if (name.starts_with('^')) {
        is_negated = !is_negated;
        name.erase(0, 1);
      }
    }
    if (name == "Alpha") name = "Alphabetic";
    if (name == "Space" || name == "White_Space") return {std::string(space_members), is_negated};
    if (name == "Alphabetic") return {std::string(alphabetic_members), is_negated};
    if (const std::string category = short_category(name); !category.empty()) {
      return {"\\p{" + (category == "LC" ? "L&" : category) + "}" + additions_of(category), is_negated};
    }
    // A script. Of characters of Unicode 15 and 16 only those of Han are known.
    const bool is_han = name == "Han" && with_additions_;
    return {"\\p{sc:" + name + "}" + (is_han ? R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})" : ""), is_negated};
  }

  /// A class that a letter stands for, and whether it is what lies outside; an empty one if the letter means no class.
  std::pair<std::string, bool> class_of_letter(char letter) {
    switch (letter) {
      case 's':
        return {std::string(space_members), false};
      case 'S':
        return {std::string(non_space_members), false};
      case 'w':
      case 'W':
        return {word_members(), letter == 'W'};
      case 'd':
      case 'D':
        return {"\\p{Nd}" + additions_of("Nd"), letter == 'D'};
      case 'h':
        return {"0-9a-fA-F", false};
      case 'H':
        return {"0-9a-fA-F", true};
      case 'p':
      case 'P':
        return take_property(letter);
      default:
        return {};
    }
  }

  /// An escape that stands for one character; false if it is none.
  bool translate_character(char letter) {
    switch (letter) {
      case 'u': {
        const std::string digits = pattern_.substr(place_, 4);
        if (digits.size() != 4) refuse("\\u needs four digits");
        place_ += 4;
        out_ += "\\x{" + digits + "}";
        return true;
      }
      case 'v':
        out_ += "\\x0b";
        return true;
      case 'x':
        out_ += peek() == '{' ? "\\x" + take_until('}') + "}" : "\\x";
        return true;
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        out_ += '\\';
        out_ += letter;
        return true;
      default:
        if (std::isalnum(static_cast<unsigned char>(letter)) != 0) return false;
        if (!is_continuation_byte(letter) && static_cast<unsigned char>(letter) < 0x80) out_ += '\\';
        out_ += letter;
        return true;
    }
  }

  void translate_escape() {
    const char letter = take();
    if (const auto [members, is_negated] = class_of_letter(letter); !members.empty()) {
      out_ += (is_negated ? "[^" : "[") + members + "]";
      return;
    }
    if (letter == 'b' || letter == 'B') {
      const std::string word = "[" + word_members() + "]";
      const std::string is_border = "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
      out_ += letter == 'b' ? is_border : "(?!" + is_border + ")";
      return;
    }
    if (std::string_view("AzZGRX").find(letter) != std::string_view::npos || (letter >= '1' && letter <= '9')) {
      out_ += '\\';
      out_ += letter;
      return;
    }
    if (!translate_character(letter)) refuse(std::string("\\") + letter + " is not supported");
  }

  void translate_set() {
    out_ += '[';
    if (peek() == '^') out_ += take();
    translate_members(0);
    out_ += ']';
  }

  /// To the closing bracket.
  void translate_members(int depth) {
    if (depth > 8) refuse("sets lie too deep in sets");
    if (peek() == ']') {
      out_ += "\\]";
      take();
    }
    for (char c = take(); c != ']'; c = take()) {
      if (c == '[') {
        translate_inner_set(depth);
      } else if (c == '\\') {
        translate_member_escape();
      } else if (c == '&' && peek() == '&') {
        refuse("intersections (&&) of sets are not supported");
      } else {
        out_ += c;
      }
    }
  }

  void translate_inner_set(int depth) {
    if (peek() == '^') refuse("a negated set within a set is not supported");
    if (peek() != ':') return translate_members(depth + 1);
    take();
    const std::string name = take_until(':');
    if (take() != ']') refuse("a POSIX bracket is not closed");
    if (name == "alpha" || name == "alnum") {
      out_ += alphabetic_members;
    } else if (name == "space") {
      out_ += space_members;
    } else if (name != "digit") {
      refuse("[:" + name + ":] is not supported");
    }
    if (name == "digit" || name == "alnum") out_ += "\\p{Nd}" + additions_of("Nd");
  }

  void translate_member_escape() {
    const char letter = take();
    if (const auto [members, is_negated] = class_of_letter(letter); !members.empty()) {
      if (is_negated) refuse(std::string("\\") + letter + " within a set is not supported");
      out_ += members;
      return;
    }
    if (letter == 'b') {
      out_ += "\\x08";
    } else if (!translate_character(letter)) {
      refuse(std::string("\\") + letter + " within a set is not supported");
    }
  }

  const std::string& pattern_;
  bool with_additions_;
  std::size_t place_ = 0;
  std::string out_;
  std::size_t atom_begin_ = 0;       ///< in out_, of what a quantifier would repeat
  std::vector<std::size_t> groups_;  ///< in out_, where the open ones begin
};

}  // namespace

std::string translate_regex(const std::string& pattern, bool with_additions) {
  return Translator(pattern, with_additions).run();
}

}  // namespace sft::text
