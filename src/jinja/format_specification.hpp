// SPDX-License-Identifier: Apache-2.0
#pragma once
// How one value is filled into a string: width, alignment, precision.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "jinja/value.hpp"

namespace sft::jinja {

/// What stands between `%` or `:` and the letter of the kind.
struct Specification {
  std::string fill = " ";
  char alignment = '\0';  ///< '<' '>' '^' '=' or none
  char sign = '-';        ///< '+', ' ' or '-'
  bool is_alternate = false;
  bool has_comma = false;
  std::int64_t width = 0;
  std::optional<std::int64_t> precision;
  char kind = '\0';
};

/// The number at `position`, which moves behind its digits; nothing if there is none.
[[nodiscard]] std::optional<std::int64_t> read_number(std::string_view text, std::size_t& position);
/// A number of the kind d x X o (an integer), f F e E g G, with sign, zeros and commas, not padded with blanks.
[[nodiscard]] std::string number_text(const Value& value, const Specification& specification);
/// Padded to the width; `otherwise` is the alignment where none is given.
[[nodiscard]] TextRef align(Heap& heap, const TextRef& text, const Specification& specification, char otherwise);
/// The characters that the precision leaves.
[[nodiscard]] TextRef shorten(Heap& heap, const TextRef& text, const Specification& specification);

}  // namespace sft::jinja
