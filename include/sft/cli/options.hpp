// SPDX-License-Identifier: Apache-2.0
#pragma once
// How every program reads its command line and answers --help and --version, from a table of its options.

#include <boost/program_options.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"
#include "sft/cli/words.hpp"

namespace sft::cli {

/// `about` with the options as its first group, and --help and --version behind them.
[[nodiscard]] Manual manual_of(Manual about, const boost::program_options::options_description& options);

/// What a program makes of options that its table does not have.
struct OtherOptions {
  /// What may follow one; empty: a value.
  std::function<Takes(const std::string& name)> takes;
  /// The option of the table that `word` means; nothing for one that has no effect on the table's. `known`: the names
  /// of the table. Throws a configuration Error. Empty: refuse_unknown.
  std::function<std::optional<Word>(const Word& word, const std::vector<std::string>& known)> meaning;
};

/// Throws the configuration Error of an option that `program` does not have; it names the one of `known` that was
/// probably meant, where one is within a small edit distance.
[[noreturn]] void refuse_unknown(const std::string& program, const Word& word, const std::vector<std::string>& known);

/// Reads the words of the command line of `about.program`. The words that may stand alone where `about.operand` is not
/// empty are the values "operand", "operand2" ... Prints help or version where they are asked for, whatever the other
/// words are, and returns nothing. Throws a configuration Error for words that it does not know.
[[nodiscard]] std::optional<boost::program_options::variables_map> read_options(
    const Manual& about, const boost::program_options::options_description& options,
    const std::vector<std::string>& arguments, const OtherOptions& others = {});

}  // namespace sft::cli
