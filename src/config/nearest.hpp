#pragma once
// The known word that a mistyped one probably meant.

#include <string>
#include <vector>

namespace sft::config {

/// Levenshtein distance: insertions, deletions and substitutions of one character.
[[nodiscard]] int edit_distance(const std::string& a, const std::string& b);

/// The candidate with the least edit distance to `word`, the first of equals; empty without candidates.
[[nodiscard]] std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace sft::config
