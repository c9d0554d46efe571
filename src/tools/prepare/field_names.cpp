// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/field_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace sft::prepare {

namespace {

constexpr std::array thought_words = {"reasoning", "thinking",  "thoughts",   "thought",      "think", "cot",
                                      "co",        "rationale", "trajectory", "trajectories", "trace", "traces"};
/// Words after one of thoughts that change nothing: "reasoning_content".
constexpr std::array content_words = {"content", "text", "process", "steps", "chain", "t"};
constexpr std::array answer_words = {"answer",  "response", "solution", "completion", "output",
                                     "attempt", "target",   "targets",  "generation", "reply"};

template <class Names>
bool is_word_of(const Names& names, const std::string& word) {
  return std::ranges::find(names, word) != names.end();
}

}  // namespace

std::vector<std::string> words_of_name(std::string_view name) {
  std::vector<std::string> words(1);
  bool was_small = false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_large = std::isupper(byte) != 0;
    if (std::isalnum(byte) == 0 || (is_large && was_small)) words.emplace_back();
    if (std::isalnum(byte) != 0) words.back() += static_cast<char>(std::tolower(byte));
    was_small = std::islower(byte) != 0;
  }
  return words;
}

bool names_thoughts(std::string_view name) {
  std::vector<std::string> words = words_of_name(name);
  while (words.size() > 1 && is_word_of(content_words, words.back())) words.pop_back();
  return is_word_of(thought_words, words.back());
}

bool names_answer(std::string_view name) { return is_word_of(answer_words, words_of_name(name).back()); }

}  // namespace sft::prepare
