// SPDX-License-Identifier: Apache-2.0
#pragma once
// A written name and its value -> the key that they set.

#include <optional>
#include <string>
#include <vector>

#include "config/keys.hpp"
#include "sft/config/options.hpp"

namespace sft::config {

/// A name with its value, as it was written.
struct Written {
  std::string section;  ///< empty: none
  std::string name;
  std::string value;
  std::string place;  ///< "in run.ini:3" or "on the command line", for messages

  [[nodiscard]] std::string full_name() const { return section.empty() ? name : section + "." + name; }
};

/// A key and the text that it is set to.
struct Setting {
  const Key* key;
  std::string text;
};

/// The keys of a name without its section. Accelerate's files put fsdp_ or parallelism_config_ before some.
[[nodiscard]] std::vector<const Key*> keys_meant_by(const std::string& name);

/// What `written` sets: a key by its full name; by its name alone, in whatever section, where only one has it, because
/// other trainers have no sections; or through the table of foreign names. Nothing when the value of a foreign name has
/// no effect here. Throws a configuration Error for a name that is unknown or, of those that several sections have, in
/// none of these, and for a foreign one that cannot be obeyed.
[[nodiscard]] std::optional<Setting> setting_of(const Written& written);

/// Refuses a section that does not exist.
void require_section(const std::string& section, const std::string& place);

/// Whether an option without a value means true: of what is true or false, and of a few others.
[[nodiscard]] bool may_stand_alone(const std::string& name);

/// An option of the command line: `--no_NAME` is NAME = false and `--NAME` alone NAME = true, of what may stand alone.
/// Throws a configuration Error for one that is unknown or without the value that it needs.
[[nodiscard]] Written written_option(Option option);

/// Throws the configuration Error of a name that is neither a key nor a foreign name. It names the one that was
/// probably meant, of them and of `others`.
[[noreturn]] void refuse_unknown(const Written& written, const std::vector<std::string>& others);

}  // namespace sft::config
