// SPDX-License-Identifier: Apache-2.0
#include "sft/cli/manual.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <sstream>

#include "sft/core/program.hpp"

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
      lines += fmt::format("\n{:{}}", "", indent);
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
  return has_dashes && !option.argument.empty() ? fmt::format("{} {}", label, option.argument) : label;
}

std::string help_with_default(const ManualOption& option) {
  return option.fallback.empty() ? option.help : fmt::format("{} [{}]", option.help, option.fallback);
}

/// Columns of the longest label of the groups with this topic.
std::size_t label_width(const Manual& manual, const std::string& topic) {
  std::size_t width = 0;
  for (const ManualGroup& group : manual.groups) {
    if (group.topic != topic) continue;
    for (const ManualOption& option : group.options) width = std::max(width, label_of(option, group.has_dashes).size());
  }
  return width;
}

/// The group's title and options, after an empty line.
std::string lines_of(const ManualGroup& group, std::size_t width) {
  const std::size_t indent = width + 4;
  std::string text = fmt::format("\n{}\n", group.title);
  for (const ManualOption& option : group.options) {
    text += fmt::format("  {:{}}{}\n", label_of(option, group.has_dashes), indent - 2,
                        wrap(help_with_default(option), indent, indent));
  }
  return text;
}

/// The heading of a group with a topic, and the line that stands for the group in the text without it.
std::string heading_of(const ManualGroup& group) { return fmt::format("Keys of {}.", group.about); }
std::string where_to_find(const Manual& manual, const ManualGroup& group) {
  return fmt::format("and {} keys of {}: see {} --help {}", group.options.size(), group.about, manual.program,
                     group.topic);
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
  for (const std::string& line : manual.usage) text += fmt::format("  {}\n", line);
  for (std::size_t i = 0; i < manual.paragraphs.size(); ++i) {
    text += fmt::format("\n{}\n", wrap(manual.paragraphs[i], 0, 0));
    if (i > 0) continue;
    for (const std::string& line : manual.shapes) text += fmt::format("  {}\n", line);
  }
  const std::size_t width = label_width(manual, "");
  bool had_keys = false;
  for (const ManualGroup& group : manual.groups) {
    if (!group.topic.empty()) {
      text += fmt::format("  {}\n", wrap(where_to_find(manual, group), 2, 2));
      continue;
    }
    if (!group.has_dashes && !had_keys) text += fmt::format("\n{}\n", wrap(manual.keys_heading, 0, 0));
    had_keys = had_keys || !group.has_dashes;
    text += lines_of(group, width);
  }
  return text;
}

std::string help_of_topic(const Manual& manual, const std::string& topic) {
  std::string text = fmt::format("{}\n\n", wrap(manual.keys_heading, 0, 0));
  for (const ManualGroup& group : manual.groups) {
    if (group.topic != topic) continue;
    text += fmt::format("{}\n{}", wrap(heading_of(group), 0, 0), lines_of(group, label_width(manual, topic)));
  }
  return text;
}

std::string man_page_of(const Manual& manual, const std::vector<std::string>& programs) {
  std::string page = fmt::format(".TH {} 1 \"\" \"sft {}\" \"User Commands\"\n", upper(manual.program), version());
  std::string summary = manual.summary;
  summary.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(summary.front())));
  page += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n", troff(manual.program), troff(summary));
  for (const std::string& line : manual.usage) page += fmt::format(".nf\n{}\n.fi\n", troff(line));
  page += fmt::format(".SH DESCRIPTION\n{}.\n", troff(manual.summary));
  for (std::size_t i = 0; i < manual.paragraphs.size(); ++i) {
    page += fmt::format(".PP\n{}\n", troff(manual.paragraphs[i]));
    if (i > 0 || manual.shapes.empty()) continue;
    page += ".nf\n";
    for (const std::string& line : manual.shapes) page += troff(line) + "\n";
    page += ".fi\n";
  }
  bool had_keys = false;
  for (const ManualGroup& group : manual.groups) {
    if (group.has_dashes) {
      page += fmt::format(".SH {}\n", upper(group.title));
    } else {
      if (!had_keys) page += fmt::format(".SH KEYS\n{}\n", troff(manual.keys_heading));
      had_keys = true;
      page += fmt::format(".SS {}\n", troff(group.title));
      if (!group.topic.empty()) page += troff(heading_of(group)) + "\n";
    }
    for (const ManualOption& option : group.options) {
      page +=
          fmt::format(".TP\n.B {}\n{}\n", troff(label_of(option, group.has_dashes)), troff(help_with_default(option)));
    }
  }
  page +=
      ".SH EXIT STATUS\n"
      "0 done; 2 configuration: command line, .ini file, a mesh that cannot be; 3 data or checkpoint; 4 NaN or Inf in\n"
      "loss or gradient norm; 75 stopped by a signal after saving: run again to go on; 76 a rank stood still: run "
      "again\n"
      "to go on; 1 anything else.\n"
      ".SH SEE ALSO\n";
  std::vector<std::string> others;
  for (const std::string& name : programs) {
    if (manual.program != name) others.push_back(fmt::format(".BR {} (1)", troff(name)));
  }
  return fmt::format("{}{}\n", page, fmt::join(others, ",\n"));
}

}  // namespace sft::cli
