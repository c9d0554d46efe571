// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of JSON as Python's json module reads them, which other parsers refuse or round.

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sft::prepare {

/// An integer of any size as a value: binary data, its digits, where 64 bits do not hold it, as templates take it.
/// `digits` are those of JSON. Throws std::invalid_argument beyond 4300 digits, which Python refuses too.
[[nodiscard]] nlohmann::ordered_json integer_of(const std::string& digits);

/// A text without the numbers that its parser refuses.
struct ParsableText {
  std::string text;                                   ///< with 0 in their place
  std::map<std::size_t, nlohmann::ordered_json> odd;  ///< by their place among all numbers of the text
};

/// Takes NaN, Infinity, -Infinity and numbers beyond a double out of a text of JSON. What else may be wrong with the
/// text stays in it.
[[nodiscard]] ParsableText without_odd_numbers(std::string_view text);

}  // namespace sft::prepare
