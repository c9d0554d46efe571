// SPDX-License-Identifier: Apache-2.0
#include "sft/cli/options.hpp"

#include <algorithm>
#include <stdexcept>

#include "sft/config/values.hpp"

namespace sft::cli {

namespace {

/// Whether a word is an option: --name or -x, but no negative number.
bool is_option(const std::string& word) {
  return word.starts_with("--") || (word.size() == 2 && word[0] == '-' && (word[1] < '0' || word[1] > '9'));
}

bool reads_as_truth(const std::string& word) {
  try {
    bool truth = false;
    config::read(word, truth);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

bool may_follow(const std::string& word, Takes takes) {
  switch (takes) {
    case Takes::nothing:
      return false;
    case Takes::truth:
      return reads_as_truth(word) || config::is_null(word);
    case Takes::value:
      return !word.starts_with("--");
  }
  return false;
}

}  // namespace

std::vector<Word> split_words(const std::vector<std::string>& arguments,
                              const std::function<Takes(const std::string& name)>& takes) {
  std::vector<Word> words;
  bool is_past_options = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--" && !is_past_options) {
      is_past_options = true;
      continue;
    }
    if (is_past_options || !is_option(argument)) {
      words.push_back({"", argument});
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::size_t begin = argument.find_first_not_of('-');
    Word word{begin == std::string::npos || begin > equals ? argument : argument.substr(begin, equals - begin), {}};
    std::ranges::replace(word.name, '-', '_');
    if (equals != std::string::npos) {
      word.value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size() && may_follow(arguments[i + 1], takes(word.name))) {
      word.value = arguments[++i];
    }
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace sft::cli
