// SPDX-License-Identifier: Apache-2.0
#include "sft/cli/manual.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "sft/core/version.hpp"

namespace sft::cli {

namespace {

constexpr std::size_t num_columns = 100;

/// The words of `text` in lines of at most num_columns, all but the first indented.
std::string wrap(const std::string& text, std::size_t first_column, std::size_t indent) {
  std::istringstream words(text);
  std::string lines;
  std::size_t column = first_column;
  bool is_first = true;
  for (std::string word; words >> word; is_first = false) {
    if (!is_first && column + 1 + word.size() > num_columns) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

std::string label_of(const ManualOption& option, bool has_dashes) {
  std::string label = has_dashes ? "--" + option.name : option.name;
  return has_dashes && !option.argument.empty() ? label + " " + option.argument : label;
}

std::string help_with_default(const ManualOption& option) {
  return option.fallback.empty() ? option.help : option.help + " [" + option.fallback + "]";
}

/// `text` for a man page: dashes that can be copied, no line that reads as a request.
std::string troff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string help_of(const Manual& manual) {
  std::string text = manual.summary + ".\n\n";
  for (const std::string& line : manual.usage) text += "  " + line + "\n";
  for (std::size_t i = 0; i < manual.paragraphs.size(); ++i) {
    text += "\n" + wrap(manual.paragraphs[i], 0, 0) + "\n";
    if (i > 0) continue;
    for (const std::string& line : manual.shapes) text += "  " + line + "\n";
  }
  std::size_t width = 0;
  for (const ManualGroup& group : manual.groups) {
    for (const ManualOption& option : group.options) width = std::max(width, label_of(option, group.has_dashes).size());
  }
  const std::size_t indent = width + 4;
  bool had_keys = false;
  for (const ManualGroup& group : manual.groups) {
    if (!group.has_dashes && !had_keys) text += "\n" + wrap(manual.keys_heading, 0, 0) + "\n";
    had_keys = had_keys || !group.has_dashes;
    text += "\n" + group.title + "\n";
    for (const ManualOption& option : group.options) {
      const std::string label = label_of(option, group.has_dashes);
      text += "  " + label + std::string(indent - 2 - label.size(), ' ') +
              wrap(help_with_default(option), indent, indent) + "\n";
    }
  }
  return text;
}

std::string man_page_of(const Manual& manual, const std::vector<std::string>& programs) {
  std::string page = ".TH " + upper(manual.program) + " 1 \"\" \"sft " + version() + "\" \"User Commands\"\n";
  std::string summary = manual.summary;
  summary.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(summary.front())));
  page += ".SH NAME\n" + troff(manual.program) + " \\- " + troff(summary) + "\n.SH SYNOPSIS\n";
  for (const std::string& line : manual.usage) page += ".nf\n" + troff(line) + "\n.fi\n";
  page += ".SH DESCRIPTION\n" + troff(manual.summary) + ".\n";
  for (std::size_t i = 0; i < manual.paragraphs.size(); ++i) {
    page += ".PP\n" + troff(manual.paragraphs[i]) + "\n";
    if (i > 0 || manual.shapes.empty()) continue;
    page += ".nf\n";
    for (const std::string& line : manual.shapes) page += troff(line) + "\n";
    page += ".fi\n";
  }
  bool had_keys = false;
  for (const ManualGroup& group : manual.groups) {
    if (group.has_dashes) {
      page += ".SH " + upper(group.title) + "\n";
    } else {
      if (!had_keys) page += ".SH KEYS\n" + troff(manual.keys_heading) + "\n";
      had_keys = true;
      page += ".SS " + troff(group.title) + "\n";
    }
    for (const ManualOption& option : group.options) {
      page += ".TP\n.B " + troff(label_of(option, group.has_dashes)) + "\n" + troff(help_with_default(option)) + "\n";
    }
  }
  page +=
      ".SH EXIT STATUS\n"
      "0 done; 2 configuration: command line, .ini file, a mesh that cannot be; 3 data or checkpoint; 4 NaN or Inf in\n"
      "loss or gradient norm; 75 stopped by a signal after saving: run again to go on; 76 a rank stood still: run "
      "again\n"
      "to go on; 1 anything else.\n"
      ".SH SEE ALSO\n";
  std::string others;
  for (const std::string& name : programs) {
    if (manual.program != name) others += (others.empty() ? "" : ",\n") + std::string(".BR ") + troff(name) + " (1)";
  }
  // A comma belongs to the line of its name.
  std::istringstream lines(others);
  for (std::string line; std::getline(lines, line);) {
    page += line.ends_with(',') ? line.substr(0, line.size() - 1) + ",\n" : line + "\n";
  }
  return page;
}

}  // namespace sft::cli
