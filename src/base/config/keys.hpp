// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of keys: the one place that knows every section, name, default and meaning. Parsing, comparing, to_ini(),
// --help, the manual page, shell completion and docs/configuration.md come from it.

#include <functional>
#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::config {

struct Key {
  std::string section;
  std::string name;
  std::string help;                  ///< one line
  std::vector<std::string> choices;  ///< the values that it can have, where they are few
  bool is_path = false;              ///< files or folders
  /// Stores the value of `text`; throws std::invalid_argument whose message is what was expected.
  std::function<void(const std::string& text, Config& config)> set;
  /// The value as text that `set` reads back.
  std::function<std::string(const Config& config)> get;
  bool may_stand_alone =
      false;  ///< `--NAME` without a value is true on a command line, although there are other values
  /// Whether the value can be used, whatever other keys say, and what it must be; null: every one that `set` takes.
  std::function<bool(const Config& config)> is_allowed = {};
  std::string rule = {};

  /// "section.name", as on the command line.
  [[nodiscard]] std::string full_name() const { return section + "." + name; }
  [[nodiscard]] bool is_flag() const { return choices == std::vector<std::string>{"true", "false"}; }
};

/// Every key, sections in one piece and in the order of the documentation.
[[nodiscard]] const std::vector<Key>& keys();

/// The key of that full name, or nullptr.
[[nodiscard]] const Key* find_key(const std::string& full_name);

/// The keys of that name, in whatever section.
[[nodiscard]] std::vector<const Key*> keys_named(const std::string& name);

/// The sections, in the order of the documentation.
[[nodiscard]] std::vector<std::string> section_names();

}  // namespace sft::config
