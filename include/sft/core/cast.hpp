// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integer conversions that refuse to lose a value.

#include <stdexcept>
#include <utility>

#include "sft/core/error.hpp"

namespace sft {

/// `value` as a To. Throws std::overflow_error, which names the place of the call, when To cannot hold it.
template <class To, class From>
[[nodiscard]] constexpr To checked_cast(From value, SourceLocation place = SourceLocation::current()) {
  if (!std::in_range<To>(value)) {
    throw std::overflow_error("internal error: an integer does not fit its type, " + text_of(place));
  }
  return static_cast<To>(value);
}

/// Smallest multiple of `step` that is >= value; value >= 0, step > 0, and value + step does not overflow: not checked.
[[nodiscard]] constexpr auto round_up(auto value, decltype(value) step) { return (value + step - 1) / step * step; }

}  // namespace sft
