// SPDX-License-Identifier: Apache-2.0
#include "sft/core/nearest.hpp"

#include <algorithm>
#include <numeric>

namespace sft {

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);  // distances of a's prefix to every prefix of b
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  const auto closer = [&](const std::string& a, const std::string& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  };
  const auto best = std::min_element(candidates.begin(), candidates.end(), closer);
  const int most = word.size() < 6 ? 1 : 2;
  return best == candidates.end() || edit_distance(word, *best) > most ? std::string() : *best;
}

}  // namespace sft
