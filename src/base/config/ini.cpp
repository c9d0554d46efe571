// SPDX-License-Identifier: Apache-2.0
#include "sft/config/ini.hpp"

#include <fmt/core.h>
#include <cctype>
#include <sstream>
#include <string_view>

#include "sft/core/error.hpp"

namespace sft::config {

namespace {

constexpr const char* white = " \t\r\f\v";

std::string trim(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(white);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(white) - begin + 1);
}

bool is_white(char c) { return std::string_view(white).find(c) != std::string_view::npos; }

/// The line up to its comment. A quote opens anywhere but behind a letter or a digit: an apostrophe is none.
std::string without_comment(const std::string& line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char before = i == 0 ? ' ' : line[i - 1];
    if (quote != 0) {
      if (line[i] == '\\' && quote == '"') {
        ++i;
      } else if (line[i] == quote) {
        quote = 0;
      }
    } else if ((line[i] == '\'' || line[i] == '"') && std::isalnum(static_cast<unsigned char>(before)) == 0) {
      quote = line[i];
    } else if ((line[i] == '#' || line[i] == ';') && is_white(before)) {
      return line.substr(0, i);
    }
  }
  return line;
}

}  // namespace

std::vector<IniLine> read_ini(const std::string& text, const std::string& source) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  std::istringstream stream(text.starts_with(byte_order_mark) ? text.substr(byte_order_mark.size()) : text);
  std::vector<IniLine> lines;
  std::string section;
  int number = 0;
  for (std::string raw; std::getline(stream, raw);) {
    ++number;
    const std::string line = trim(without_comment(raw));
    if (line.empty()) continue;
    const std::size_t equals = line.find('=');
    if (line.front() == '[' && line.back() == ']') {
      section = trim(line.substr(1, line.size() - 2));
      lines.push_back({number, section, "", ""});
    } else if (equals != std::string::npos && equals > 0) {
      lines.push_back({number, section, trim(line.substr(0, equals)), trim(line.substr(equals + 1))});
    } else {
      throw_config_error(fmt::format("line `{}` of {} cannot be read", line, place_of(source, number)),
                         "it is neither [section], key = value nor # comment", "correct or remove it");
    }
  }
  return lines;
}

std::string place_of(const std::string& source, int line_number) { return fmt::format("{}:{}", source, line_number); }

}  // namespace sft::config
