// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the programs beside sft share: reading the command line, answering --help and --version.

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/manual.hpp"

namespace sft::apps {

/// `about` with the options as its one group, and --help and --version behind them.
[[nodiscard]] config::Manual manual_of(config::Manual about,
                                       const boost::program_options::options_description& options);

/// Reads the words of the command line of `about.program`. The words that may stand alone where `about.operand` is not
/// empty are the values "operand", "operand2" ... Prints help or version where they are asked for and returns nothing.
/// Throws a configuration Error for words that it does not know.
[[nodiscard]] std::optional<boost::program_options::variables_map> read_options(
    const config::Manual& about, const boost::program_options::options_description& options,
    const std::vector<std::string>& arguments);

}  // namespace sft::apps
