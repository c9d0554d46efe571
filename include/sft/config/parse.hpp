// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text -> Config -> text.

#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/config/options.hpp"

namespace sft::config {

/// Parses .ini text, then the overrides, options of the command line, which win: `--no_NAME` is NAME = false and
/// `--NAME` alone NAME = true, of what is true or false. Names of TRL, transformers and Accelerate that mean a key are
/// understood, others refused with what to write. Values are read alike in both: quotes, and $VAR and ~ of this
/// process's environment in texts and paths. Throws a configuration Error that names `source` and the line on what it
/// cannot read. Reads no file.
[[nodiscard]] Config parse(const std::string& ini_text, const std::vector<Option>& overrides,
                           const std::string& source);
/// parse() onto `base`: keys that are not given keep what it says.
[[nodiscard]] Config parse(const std::string& ini_text, const std::vector<Option>& overrides, const std::string& source,
                           const Config& base);

/// A name with its value, as another program's file or a command line has it.
struct PlacedOption {
  Option option;
  std::string place;  ///< "in zero3.yaml:12" or "on the command line", for messages
};

/// parse() of several sources, of which later ones win; in each a key may be set once. `refused`: what was refused of
/// them before, finished messages, which stand with all others in the one configuration Error. Reads no file.
[[nodiscard]] Config parse_sources(const std::vector<std::vector<PlacedOption>>& sources,
                                   const std::vector<std::string>& refused);

/// Whether the last that is said of `dtype` or `torch_dtype`, in the file or by an option, is auto: the dtype of the
/// model's weights, which parse() leaves open, and no key says the precision. Throws as parse().
[[nodiscard]] bool is_dtype_of_model(const std::string& ini_text, const std::vector<Option>& overrides,
                                     const std::string& source);

/// A line for each reason for which options of other trainers change nothing here, with their names; none of those that
/// switch something off, or that cannot be obeyed.
[[nodiscard]] std::vector<std::string> notes_on(const std::vector<PlacedOption>& settings);

/// A key whose value differs between two configurations, and both values as text.
struct Difference {
  std::string section, name, before, now;
};
/// What differs, in the order of the documentation. Pure.
[[nodiscard]] std::vector<Difference> differences(const Config& before, const Config& now);

/// The configuration as .ini text that parse() reads back to the same struct in any environment: `resolved.ini`,
/// `--print-config`.
[[nodiscard]] std::string to_ini(const Config& config);

}  // namespace sft::config
