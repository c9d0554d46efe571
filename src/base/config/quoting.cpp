// SPDX-License-Identifier: Apache-2.0
#include "config/quoting.hpp"

#include <pwd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <stdexcept>

namespace sft::config {

namespace {

constexpr const char* separators = " \t,";

[[noreturn]] void expect(const std::string& what) { throw std::invalid_argument(what); }

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The value of a variable of the environment.
std::string value_of(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr) {
    expect(fmt::format("the variable {} to be set in the environment; single quotes keep a `$`", variable));
  }
  return value;
}

/// Reads the variable whose `$` stands at `position`, and moves behind it.
std::string read_variable(const std::string& text, std::size_t& position) {
  std::size_t begin = position + 1;
  const bool is_braced = begin < text.size() && text[begin] == '{';
  if (is_braced) ++begin;
  std::size_t end = begin;
  while (end < text.size() && is_name_character(text[end])) ++end;
  const bool starts_as_name = end > begin && std::isdigit(static_cast<unsigned char>(text[begin])) == 0;
  if (!starts_as_name || (is_braced && (end == text.size() || text[end] != '}'))) {
    expect("$NAME or ${NAME} behind the `$`; single quotes keep a `$`");
  }
  position = is_braced ? end + 1 : end;
  return value_of(text.substr(begin, end - begin));
}

/// Reads the home folder whose ~ stands at `position`, and moves to the `/` or the end behind it.
std::string read_home(const std::string& text, std::size_t& position) {
  const std::size_t end = std::min(text.find_first_of("/ \t,", position), text.size());
  const std::string user = text.substr(position + 1, end - position - 1);
  position = end;
  if (user.empty()) return value_of("HOME");
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) expect("a user of this system behind the `~`; single quotes keep a `~`");
  return entry->pw_dir;
}

/// Reads the '...' or "..." that begins at `position`, and moves behind it.
std::string read_quoted(const std::string& text, std::size_t& position, bool expands) {
  const char quote = text[position++];
  std::string value;
  while (position < text.size() && text[position] != quote) {
    if (quote == '"' && text[position] == '\\' && position + 1 < text.size() &&
        std::string("\"\\$").find(text[position + 1]) != std::string::npos) {
      value += text[position + 1];
      position += 2;
    } else if (quote == '"' && expands && text[position] == '$') {
      value += read_variable(text, position);
    } else {
      value += text[position++];
    }
  }
  if (position == text.size()) expect(fmt::format("a closing {}", quote));
  ++position;
  return value;
}

/// Reads up to one of `stops`, and moves there.
std::string read_plain(const std::string& text, std::size_t& position, const std::string& stops, bool expands) {
  std::string value;
  if (expands && text[position] == '~') value += read_home(text, position);
  while (position < text.size() && stops.find(text[position]) == std::string::npos) {
    if (expands && text[position] == '$') {
      value += read_variable(text, position);
    } else {
      value += text[position++];
    }
  }
  return value;
}

/// Reads one value, and moves behind it: to the end or to one of `stops`.
std::string read_value(const std::string& text, std::size_t& position, const std::string& stops, bool expands) {
  if (text[position] != '\'' && text[position] != '"') return read_plain(text, position, stops, expands);
  std::string value = read_quoted(text, position, expands);
  if (position < text.size() && stops.find(text[position]) == std::string::npos) {
    expect("nothing behind the closing quote");
  }
  return value;
}

void refuse_more_lines(const std::string& text) {
  if (text.find_first_of("\n\r") != std::string::npos) expect("a text on one line");
}

std::string read_all(const std::string& text, bool expands) {
  refuse_more_lines(text);
  std::size_t position = 0;
  return text.empty() ? std::string() : read_value(text, position, "", expands);
}

std::string in_quotes(const std::string& value) {
  if (value.find('\'') == std::string::npos) return fmt::format("'{}'", value);
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\' || c == '$') text += '\\';
    text += c;
  }
  return text + "\"";
}

}  // namespace

std::string unquoted(const std::string& text) { return read_all(text, /*expands=*/false); }

std::string expanded(const std::string& text) { return read_all(text, /*expands=*/true); }

std::vector<std::string> expanded_items(const std::string& text) {
  refuse_more_lines(text);
  std::vector<std::string> items;
  for (std::size_t i = text.find_first_not_of(separators); i != std::string::npos;) {
    items.push_back(read_value(text, i, separators, /*expands=*/true));
    i = text.find_first_not_of(separators, i);
  }
  return items;
}

std::string quoted(const std::string& value) {
  if (value.empty()) return value;
  const bool has_white_ends = value.find_first_of(" \t") == 0 || value.find_last_of(" \t") == value.size() - 1;
  const bool is_special = value.find_first_of("'\"$#;") != std::string::npos || value.front() == '~';
  return has_white_ends || is_special ? in_quotes(value) : value;
}

std::string quoted_item(const std::string& value) {
  return value.empty() || value.find_first_of(separators) != std::string::npos ? in_quotes(value) : quoted(value);
}

}  // namespace sft::config
