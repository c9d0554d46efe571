// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <string>

#include "sft/cli/manual.hpp"

namespace sft::cli {

namespace {

/// An option as it is typed.
struct Typed {
  std::string word;  ///< "--parallel.tp_size"
  const ManualOption* option;
};

/// How many options or keys have each name.
std::map<std::string, int> counts_of_names(const Manual& manual) {
  std::map<std::string, int> counts;
  for (const ManualGroup& group : manual.groups) {
    for (const ManualOption& option : group.options) ++counts[option.name];
  }
  return counts;
}

/// A key that only one section has is typed with it or without.
std::vector<Typed> typed_options(const Manual& manual) {
  std::vector<Typed> typed;
  const std::map<std::string, int> counts = counts_of_names(manual);
  for (const ManualGroup& group : manual.groups) {
    // A group of keys is titled "[section]".
    const std::string section = group.has_dashes ? "" : group.title.substr(1, group.title.size() - 2) + ".";
    for (const ManualOption& option : group.options) {
      typed.push_back({fmt::format("--{}{}", section, option.name), &option});
      if (!group.has_dashes && counts.at(option.name) == 1)
        typed.push_back({fmt::format("--{}", option.name), &option});
    }
  }
  return typed;
}

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string function_name(const std::string& program) {
  std::string name = "_" + program;
  std::ranges::replace(name, '-', '_');
  return name;
}

/// `text` inside of '...[...]...' of zsh's _arguments.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      escaped += {'\\', c};
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string bash_completion_of(const Manual& manual) {
  std::string cases;
  std::vector<std::string> all;
  for (const auto& [word, option] : typed_options(manual)) {
    all.push_back(word);
    if (!option->choices.empty()) {
      cases += fmt::format("    {}) mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$current\") ;;\n", word,
                           join(option->choices));
    } else if (option->is_path) {
      cases +=
          fmt::format("    {}) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n", word);
    } else if (!option->argument.empty()) {
      cases += fmt::format("    {}) ;;\n", word);
    }
  }
  const std::string operand = manual.operand.empty() ? ":"
                              : manual.operand == "/"
                                  ? "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\")"
                                  : fmt::format(
                                        "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -X '!{}' -- "
                                        "\"$current\"; compgen -d -- \"$current\")",
                                        manual.operand);
  return fmt::format(
      R"(# bash completion of {program}
{function}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  COMPREPLY=()
  case $previous in
{cases}    *)
      if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '{options}' -- "$current")
      else
        {operand}
      fi ;;
  esac
}}
complete -F {function} {program}
)",
      fmt::arg("program", manual.program), fmt::arg("function", function_name(manual.program)),
      fmt::arg("cases", cases), fmt::arg("options", join(all)), fmt::arg("operand", operand));
}

std::string zsh_completion_of(const Manual& manual) {
  std::string text = fmt::format("#compdef {}\n_arguments \\\n", manual.program);
  for (const auto& [word, option] : typed_options(manual)) {
    std::string argument;
    if (!option->choices.empty()) {
      argument = fmt::format(":value:({})", join(option->choices));
    } else if (option->is_path) {
      argument = ":path:_files";
    } else if (!option->argument.empty()) {
      argument = fmt::format(":{}:", zsh_text(option->argument));
    }
    text += fmt::format("  '*{}[{}]{}' \\\n", word, zsh_text(option->help), argument);
  }
  const std::string operand = manual.operand.empty()  ? ":: :"
                              : manual.operand == "/" ? "*:folder:_files -/"
                                                      : fmt::format("*:file:_files -g \"{}\"", manual.operand);
  return fmt::format("{}  '{}'\n", text, operand);
}

}  // namespace sft::cli
