// SPDX-License-Identifier: Apache-2.0
#pragma once
// The names that users bring from TRL, transformers, Accelerate and a model's config.json and that are no keys of ours:
// one table of what each means here. tests/unit/config/foreign_names.txt lists those of TRL 1.16, transformers 5.23 and
// Accelerate 1.15; a test holds the table complete.

#include <string>
#include <vector>

namespace sft::config {

/// What to do with values of a foreign name.
struct Accepted {
  /// The value, or `*` for any. true, false and none stand for all ways to write them.
  const char* value;
  /// "section.key=VALUE", where * is the value as it was written; empty: nothing to set, it is so anyway or without
  /// effect here.
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

/// What `name` means to `sft-prepare`, of those it does not have as options; or nullptr.
[[nodiscard]] const ForeignName* find_foreign_name_of_prepare(const std::string& name);

}  // namespace sft::config
