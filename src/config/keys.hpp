#pragma once
// The table of keys: the one place that knows every section, name, default and meaning. Parsing, --help, to_ini() and
// docs/configuration.md come from it.

#include <functional>
#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::config {

struct Key {
  std::string section;
  std::string name;
  std::string help;  ///< one line
  /// Stores the value of `text`; throws std::invalid_argument whose message is what was expected.
  std::function<void(const std::string& text, Config& config)> set;
  /// The value as text that `set` reads back.
  std::function<std::string(const Config& config)> get;

  /// "section.name", as on the command line.
  [[nodiscard]] std::string full_name() const { return section + "." + name; }
};

/// Every key, sections in one piece and in the order of the documentation.
[[nodiscard]] const std::vector<Key>& keys();

/// The key of that full name, or nullptr.
[[nodiscard]] const Key* find_key(const std::string& full_name);

}  // namespace sft::config
