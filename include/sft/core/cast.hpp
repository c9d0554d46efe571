#pragma once
// Integer conversions that refuse to lose a value.

#include <stdexcept>
#include <utility>

namespace sft {

/// `value` as a To. Throws std::overflow_error when To cannot hold it.
template <class To, class From>
[[nodiscard]] constexpr To checked_cast(From value) {
  if (!std::in_range<To>(value)) throw std::overflow_error("integer out of range of its type");
  return static_cast<To>(value);
}

/// Smallest multiple of `step` that is >= value; value >= 0, step > 0, and value + step does not overflow: not checked.
[[nodiscard]] constexpr auto round_up(auto value, decltype(value) step) { return (value + step - 1) / step * step; }

}  // namespace sft
