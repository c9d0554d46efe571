// SPDX-License-Identifier: Apache-2.0
#pragma once
// The names that users bring from TRL, transformers, Accelerate and a model's config.json and that are no keys of ours:
// one table of what each means here. tests/unit/config/foreign_names.txt lists those of TRL 1.16, transformers 5.24 and
// Accelerate 1.15; a test holds the table complete, and tests/tools/peers/foreign_names.py the list.

#include <optional>
#include <string>
#include <vector>

namespace sft::config {

/// What to do with values of a foreign name.
struct Accepted {
  /// The value, or `*` for any. true, false and none stand for all ways to write them.
  const char* value;
  /// "section.key=VALUE", of sft-prepare "option=VALUE", where * is the value as it was written; empty: nothing to set,
  /// it is so anyway or without effect here.
  const char* assignment;
};

struct ForeignName {
  std::string name;
  std::vector<Accepted> accepted;  ///< the first that fits counts; any other value is refused
  const char* why;                 ///< other values are refused
  const char* what_to_do;          ///< instead
};

/// What `name` means to `sft`, or nullptr. The prefixes `fsdp_` and `parallelism_config_` of Accelerate's files are
/// understood.
[[nodiscard]] const ForeignName* find_foreign_name(const std::string& name);

/// The same for a name that has an entry of its own, its prefix included.
[[nodiscard]] const ForeignName* find_exact_foreign_name(const std::string& name);

/// Looks up a name that is none of the options of `sft-prepare`; null where nobody else uses it.
[[nodiscard]] const ForeignName* find_foreign_name_of_prepare(const std::string& name);

/// The names of the table for `sft`, without those that stand for several.
[[nodiscard]] std::vector<std::string> foreign_names();

/// Whether the name is a flag: on a command line it needs no value.
[[nodiscard]] bool is_flag(const ForeignName& foreign);

/// A name and the text that it is set to.
struct Assignment {
  std::string name, value;
};

/// What a foreign name that is written like this sets; nothing when that has no effect here. Throws a configuration
/// Error for a value that `program` does not take, which stands at `place` ("in run.ini:3").
[[nodiscard]] std::optional<Assignment> obey(const ForeignName& foreign, const Assignment& written,
                                             const std::string& program, const std::string& place);

}  // namespace sft::config
