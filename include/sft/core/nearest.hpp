// SPDX-License-Identifier: Apache-2.0
#pragma once
// The known word that a mistyped one probably meant.

#include <string>
#include <vector>

namespace sft {

/// Levenshtein distance: insertions, deletions and substitutions of one character.
[[nodiscard]] int edit_distance(const std::string& a, const std::string& b);

/// The candidate that `word` is a slip of the pen for, the first of equals: at most two edits away, one in words below
/// six letters. Empty when there is none: a wild guess is worse than no guess.
[[nodiscard]] std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace sft
