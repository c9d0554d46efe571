// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a command line has to know of the keys, and of the names that users bring from elsewhere.

#include <optional>
#include <string>
#include <vector>

namespace sft::config {

/// An option of a command line.
struct Option {
  std::string name;                  ///< without its dashes, `-` as `_`; with its section or without
  std::optional<std::string> value;  ///< as it was written; empty: there is none
};

/// A key of the .ini file, for people.
struct KeyDescription {
  std::string section, name, help;
  std::string fallback;              ///< the default as text
  std::vector<std::string> choices;  ///< the values that it can have, where they are few
  bool is_path = false;              ///< its value is a file or a folder
  bool comes_with_model = false;     ///< model_name_or_path brings it: few people write it
};
/// Every key, sections in one piece and in the order of the documentation.
[[nodiscard]] std::vector<KeyDescription> describe_keys();

/// Whether the option of this name, a key or a foreign name, is true or false: it needs no value.
[[nodiscard]] bool is_truth(const std::string& name);

/// Throws the configuration Error of an option without a section that is neither a key nor a foreign name. It names the
/// one that was probably meant, of them and of `others`, the other words of the command line.
void require_known(const Option& option, const std::vector<std::string>& others);

/// Throws the configuration Error of an option that is given without the value it needs.
[[noreturn]] void refuse_without_value(const std::string& name);

/// What `option` means to sft-prepare, whose options are `known` and which does not have it: names of TRL, transformers
/// and Accelerate may mean an option of its own, with its value, or have no effect (nothing). Throws a configuration
/// Error for those that cannot be obeyed, and for what belongs to training and is like none of `known`. An option that
/// none of this holds for comes back as it is. Pure.
[[nodiscard]] std::optional<Option> meaning_to_prepare(const Option& option, const std::vector<std::string>& known);

}  // namespace sft::config
