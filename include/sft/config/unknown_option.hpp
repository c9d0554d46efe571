// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options that a program beside sft does not have.

#include <optional>
#include <string>
#include <vector>

#include "sft/config/words.hpp"

namespace sft::config {

/// What `option` on the command line of `program` means, whose options are `known` (without dashes) and which does not
/// have it: for sft-prepare, names of TRL, transformers and Accelerate may mean an option of its own, with its value,
/// or have no effect (nothing). Throws the configuration Error that names the option that was probably meant, where one
/// is within a small edit distance, or says what to write instead. Pure.
[[nodiscard]] std::optional<Word> meaning_of_unknown_option(const std::string& program, const Word& option,
                                                            const std::vector<std::string>& known);

}  // namespace sft::config
