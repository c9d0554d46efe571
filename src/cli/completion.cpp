// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "sft/cli/manual.hpp"

namespace sft::cli {

namespace {

/// An option as it is typed.
struct Typed {
  std::string word;  ///< "--parallel.tp_size"
  const ManualOption* option;
};

std::vector<Typed> typed_options(const Manual& manual) {
  std::vector<Typed> typed;
  for (const ManualGroup& group : manual.groups) {
    // A group of keys is titled "[section]".
    const std::string section = group.has_dashes ? "" : group.title.substr(1, group.title.size() - 2) + ".";
    for (const ManualOption& option : group.options) typed.push_back({"--" + section + option.name, &option});
  }
  return typed;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

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
      escaped += std::string("\\") + c;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string bash_completion_of(const Manual& manual) {
  const std::string function = function_name(manual.program);
  std::string cases, all;
  for (const auto& [word, option] : typed_options(manual)) {
    all += (all.empty() ? "" : " ") + word;
    if (!option->choices.empty()) {
      cases +=
          "    " + word + ") mapfile -t COMPREPLY < <(compgen -W '" + join(option->choices) + "' -- \"$current\") ;;\n";
    } else if (option->is_path) {
      cases += "    " + word + ") compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n";
    } else if (!option->argument.empty()) {
      cases += "    " + word + ") ;;\n";
    }
  }
  const std::string operand = manual.operand.empty() ? ":"
                              : manual.operand == "/"
                                  ? "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\")"
                                  : "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -X '!" + manual.operand +
                                        "' -- \"$current\"; compgen -d -- \"$current\")";
  return "# bash completion of " + manual.program + "\n" + function +
         "() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  COMPREPLY=()\n"
         "  case $previous in\n" +
         cases +
         "    *)\n"
         "      if [[ $current == -* ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W '" +
         all +
         "' -- \"$current\")\n"
         "      else\n"
         "        " +
         operand +
         "\n"
         "      fi ;;\n"
         "  esac\n"
         "}\n"
         "complete -F " +
         function + " " + manual.program + "\n";
}

std::string zsh_completion_of(const Manual& manual) {
  std::string text = "#compdef " + manual.program + "\n_arguments \\\n";
  for (const auto& [word, option] : typed_options(manual)) {
    std::string argument;
    if (!option->choices.empty()) {
      argument = ":value:(" + join(option->choices) + ")";
    } else if (option->is_path) {
      argument = ":path:_files";
    } else if (!option->argument.empty()) {
      argument = ":" + zsh_text(option->argument) + ":";
    }
    text += "  '*" + word + "[" + zsh_text(option->help) + "]" + argument + "' \\\n";
  }
  const std::string operand = manual.operand.empty()  ? ":: :"
                              : manual.operand == "/" ? "*:folder:_files -/"
                                                      : "*:file:_files -g \"" + manual.operand + "\"";
  return text + "  '" + operand + "'\n";
}

}  // namespace sft::cli
