// SPDX-License-Identifier: Apache-2.0
#pragma once
// The words of a command line -> options and what stands alone.

#include <functional>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace sft::cli
