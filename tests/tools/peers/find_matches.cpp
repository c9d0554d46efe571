// SPDX-License-Identifier: Apache-2.0
// Finds matches for regular_expressions.py. Every line of standard input is a JSON object:
//
//   {"pattern": TEXT, "texts": [TEXT ...]}
//
// and every line of standard output the result: for each text the list of its matches that are not empty, or null where
// the search is given up; null alone where the pattern is refused.

#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "text/regex.hpp"

namespace {

using nlohmann::json;

json matches_of(const sft::text::Regex& regex, const std::string& text) {
  std::vector<sft::text::ByteRange> matches;
  try {
    regex.find_all(text, matches);
  } catch (const sft::Error&) {
    return nullptr;
  }
  json list = json::array();
  for (const auto& match : matches) {
    if (match.end > match.begin) list.push_back(text.substr(match.begin, match.end - match.begin));
  }
  return list;
}

json answer(const json& job) {
  try {
    const sft::text::Regex regex(job.at("pattern").get<std::string>());
    json answers = json::array();
    for (const json& text : job.at("texts")) answers.push_back(matches_of(regex, text.get<std::string>()));
    return answers;
  } catch (const std::invalid_argument&) {
    return nullptr;
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(json::parse(line)).dump() << std::endl;
}
