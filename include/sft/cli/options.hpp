// SPDX-License-Identifier: Apache-2.0
#pragma once
// How every program reads its command line, splits its words and answers --help and --version, from a table of its
// options.

#include <boost/program_options.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"

namespace sft::cli {

/// What may follow an option.
enum class Takes { nothing, truth, value };

struct Word {
  std::string name;                  ///< without its dashes, `-` as `_`; empty: a word that stands alone
  std::optional<std::string> value;  ///< what follows it; the word itself when it stands alone
};

/// Splits `--name VALUE`, `--name=VALUE`, `--name`, `-x` and words that stand alone, which all are behind a `--`.
/// `takes` says what may follow an option that has no `=`: a truth is taken only when the next word reads as one (true,
/// no, 1 ...), a value unless the next word begins with `--`.
[[nodiscard]] std::vector<Word> split_words(const std::vector<std::string>& arguments,
                                            const std::function<Takes(const std::string& name)>& takes);

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
