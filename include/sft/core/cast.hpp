#pragma once
// Integer conversions that refuse to lose a value.

#include <stdexcept>
#include <utility>

namespace sft {

template <class To, class From>
[[nodiscard]] constexpr To checked_cast(From value) {
  if (!std::in_range<To>(value)) throw std::overflow_error("integer out of range of its type");
  return static_cast<To>(value);
}

/// Smallest multiple of `step` that is >= value; step > 0.
[[nodiscard]] constexpr auto round_up(auto value, decltype(value) step) { return (value + step - 1) / step * step; }

}  // namespace sft
