// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program says about itself: --help, manual page and shell completion, all from one table.

#include <string>
#include <vector>

namespace sft::cli {

/// An option of a command line, or a key of the .ini file.
struct ManualOption {
  std::string name;      ///< as after the dashes: "max_steps", "parallel.tp_size"
  std::string argument;  ///< "N"; empty: takes none
  std::string help;
  std::string fallback;              ///< the default as text; empty: none
  std::vector<std::string> choices;  ///< its values, where they are few
  bool is_path = false;              ///< its value is a file or a folder
};

struct ManualGroup {
  std::string title;  ///< "Options", "[model]"
  std::vector<ManualOption> options;
  bool has_dashes = true;  ///< false: shown as keys; each is an option --TITLE.NAME all the same
  /// The word after --help that shows the group; empty: --help alone does.
  std::string topic = {};
  std::string about = {};  ///< with a topic: what the keys describe, "the architecture"
};

struct Manual {
  std::string program;  ///< "sft-inspect"
  std::string summary;  ///< one line without a full stop
  std::vector<std::string> usage;
  std::vector<std::string> paragraphs;
  std::vector<std::string> shapes;  ///< lines that keep their form, behind the first paragraph
  std::vector<ManualGroup> groups;
  std::string keys_heading;    ///< stands before the first group of keys; empty: there is none
  std::string operand;         ///< glob of what may stand alone: "*.ini", "/" for folders; empty: nothing
  std::string operand_option;  ///< an option that gives the first of these words too; empty: none does
  int num_operands = 1;        ///< how many such words there may be
};

/// Text of --help, no line above 100 columns unless a word is. Groups with a topic are a line that says where they are.
[[nodiscard]] std::string help_of(const Manual& manual);
/// Text of --help TOPIC: the groups with this topic.
[[nodiscard]] std::string help_of_topic(const Manual& manual, const std::string& topic);
/// The manual page in man(7) format, section 1. `programs`: the names of all that are installed together.
[[nodiscard]] std::string man_page_of(const Manual& manual, const std::vector<std::string>& programs);
/// A completion file for bash-completion.
[[nodiscard]] std::string bash_completion_of(const Manual& manual);
/// A completion function for zsh, `_PROGRAM`.
[[nodiscard]] std::string zsh_completion_of(const Manual& manual);

}  // namespace sft::cli
