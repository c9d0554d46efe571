// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text -> Config -> text.

#include <optional>
#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::config {

/// What a command line asks for.
struct CommandLine {
  enum class Action { run, help, version, print_config, dry_run, check };
  Action action = Action::run;
  bool json = false;                   ///< with dry_run: print JSON
  int num_ranks = 0;                   ///< with dry_run: ranks of the planned mesh; 0: as many as its axes need
  std::string input_file;              ///< empty: none given
  std::vector<std::string> overrides;  ///< the remaining `--section.key value` words
};

/// Splits `sft [INPUT.ini] [--section.key VALUE ...] [--help] [--version] [--print-config] [--dry-run [--json]
/// [--num_ranks N]] [--check]`. Throws a configuration Error on words that are no such thing, and on options that
/// exclude or need one another; --help and --version come before all else.
[[nodiscard]] CommandLine parse_command_line(const std::vector<std::string>& arguments);

/// Parses .ini text, then the overrides, which win. Names of TRL, transformers and Accelerate that mean a key are
/// understood, others refused with what to write. Values are read alike in both: quotes, and $VAR and ~ of this
/// process's environment in texts and paths. Throws a configuration Error that names `source` and the line on what it
/// cannot read. Reads no file.
[[nodiscard]] Config parse(const std::string& ini_text, const std::vector<std::string>& overrides,
                           const std::string& source);
/// The same for keys that were given alone: all others keep what `base` says.
[[nodiscard]] Config parse(const std::string& ini_text, const std::vector<std::string>& overrides,
                           const std::string& source, const Config& base);

/// A key whose value differs between two configurations, and both values as text.
struct Difference {
  std::string section, name, before, now;
};
/// What differs, in the order of the documentation. Pure.
[[nodiscard]] std::vector<Difference> differences(const Config& before, const Config& now);

/// The configuration as .ini text that parse() reads back to the same struct in any environment: `resolved.ini`,
/// `--print-config`.
[[nodiscard]] std::string to_ini(const Config& config);

/// Text of `sft --help`, from the same table of keys.
[[nodiscard]] std::string help_text();

}  // namespace sft::config
