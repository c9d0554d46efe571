// SPDX-License-Identifier: Apache-2.0
#include "sft/checkpoint/lineage.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <sstream>

#include "sft/core/error.hpp"

namespace sft::checkpoint {

namespace {

std::string random_id() {
  std::random_device random;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    std::array<char, 9> digits{};
    std::snprintf(digits.data(), digits.size(), "%08x", random());
    id += digits.data();
  }
  return id;
}

}  // namespace

Lineage new_lineage() { return {random_id(), {}}; }

Lineage branch_off(const Lineage& parent, std::int64_t step) {
  Lineage lineage{random_id(), parent.ancestors};
  if (!parent.run_id.empty()) lineage.ancestors.push_back({parent.run_id, step});
  return lineage;
}

bool contains(const Lineage& lineage, const std::string& run_id, std::int64_t step) {
  if (run_id.empty()) return false;
  if (run_id == lineage.run_id) return true;
  return std::ranges::any_of(lineage.ancestors, [&](const Ancestor& ancestor) {
    return ancestor.run_id == run_id && step <= ancestor.last_step;
  });
}

std::string to_text(const std::vector<Ancestor>& ancestors) {
  std::string text;
  for (const Ancestor& ancestor : ancestors) text += ancestor.run_id + " " + std::to_string(ancestor.last_step) + "\n";
  return text;
}

std::vector<Ancestor> parse_ancestors(const std::string& text, const std::string& source) {
  std::vector<Ancestor> ancestors;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Ancestor ancestor;
    if (!(words >> ancestor.run_id >> ancestor.last_step)) {
      throw_data_error("cannot read the list of earlier runs in " + source, "its line is \"" + line + "\"",
                       "the file is damaged: use another checkpoint");
    }
    ancestors.push_back(ancestor);
  }
  return ancestors;
}

}  // namespace sft::checkpoint
