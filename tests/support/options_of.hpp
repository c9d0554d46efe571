// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options as a test writes them.

#include <string>
#include <vector>

#include "sft/cli/options.hpp"
#include "sft/config/options.hpp"

namespace sft::test {

/// What `words` are on the command line of sft, without a word that stands alone.
inline std::vector<config::Option> options_of(const std::vector<std::string>& words) {
  const auto takes = [](const std::string& name) {
    return config::is_truth(name) ? cli::Takes::truth : cli::Takes::value;
  };
  std::vector<config::Option> options;
  for (const cli::Word& word : cli::split_words(words, takes)) options.push_back({word.name, word.value});
  return options;
}

}  // namespace sft::test
