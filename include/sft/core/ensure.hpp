// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conditions that only a bug in this program can break.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sft/core/source_location.hpp"

/// Throws std::logic_error unless `condition` holds; `what` says what must hold. The message, with the place of the
/// call, is
///
///   internal error: WHAT: CONDITION (3 == 4), FILE:LINE in FUNCTION
///
/// The two values are told of one comparison of numbers, enumerators or texts, not of several that && or || join. A
/// condition that is `false` alone is not repeated. It is evaluated once; shifts and bitwise operators in it stand in
/// parentheses. Where only some ranks find a bug, comm::run_program and comm::Group::agree name the rank, as for every
/// error.
// NOLINTBEGIN(bugprone-macro-parentheses): in parentheses, the comparison would be over before it is captured
#define SFT_ENSURE(condition, what) \
  ::sft::ensure_detail::check(::sft::ensure_detail::Capture() + condition, #condition, what)
// NOLINTEND(bugprone-macro-parentheses)

namespace sft::ensure_detail {

template <class T>
inline constexpr bool is_printable_v = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                                       (std::is_convertible_v<const T&, std::string_view> && !std::is_pointer_v<T>);

[[nodiscard]] std::string text_of_number(double value);

template <class T>
[[nodiscard]] std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return text_of_number(static_cast<double>(value));
  } else {
    return '"' + std::string(std::string_view(value)) + '"';
  }
}

/// Integers that C++ would make unsigned to compare them.
template <class L, class R>
inline constexpr bool have_other_signs_v = std::is_integral_v<L>&& std::is_integral_v<R> && !std::is_same_v<L, bool> &&
                                           !std::is_same_v<R, bool> && std::is_signed_v<L> != std::is_signed_v<R>;

/// A comparison of two values, which outlive it.
template <class L, class R>
struct Comparison {
  const L& left;
  const char* name;  ///< " == "
  const R& right;
  bool holds;

  explicit operator bool() const { return holds; }
  [[nodiscard]] std::string values() const {
    if constexpr (is_printable_v<L> && is_printable_v<R>) {
      return ensure_detail::text_of(left) + name + ensure_detail::text_of(right);
    } else {
      return "";
    }
  }
};

/// What stands leftmost in a condition. T: a reference to it, or a sum that it begins.
template <class T>
struct Operand {
  T value;

  explicit operator bool() const { return static_cast<bool>(value); }

  template <class R>
  [[nodiscard]] auto operator+(const R& right) const {
    return Operand<decltype(value + right)>{value + right};
  }
  template <class R>
  [[nodiscard]] auto operator-(const R& right) const {
    return Operand<decltype(value - right)>{value - right};
  }

#define SFT_ENSURE_COMPARISON(sign, compare)                     \
  template <class R>                                             \
  [[nodiscard]] auto operator sign(const R& right) const {       \
    using L = std::remove_cvref_t<T>;                            \
    bool holds = false;                                          \
    if constexpr (have_other_signs_v<L, R>) {                    \
      holds = std::compare(value, right);                        \
    } else {                                                     \
      holds = value sign right;                                  \
    }                                                            \
    return Comparison<L, R>{value, " " #sign " ", right, holds}; \
  }
  SFT_ENSURE_COMPARISON(==, cmp_equal)
  SFT_ENSURE_COMPARISON(!=, cmp_not_equal)
  SFT_ENSURE_COMPARISON(<, cmp_less)
  SFT_ENSURE_COMPARISON(<=, cmp_less_equal)
  SFT_ENSURE_COMPARISON(>, cmp_greater)
  SFT_ENSURE_COMPARISON(>=, cmp_greater_equal)
#undef SFT_ENSURE_COMPARISON
};

/// Takes what stands leftmost: of all operators that are no comparisons, `+` binds as loosely as any that is wanted in
/// a condition without parentheses.
struct Capture {
  template <class T>
  [[nodiscard]] Operand<const T&> operator+(const T& value) const {
    return {value};
  }
};

/// `values`: empty for none.
[[noreturn]] void fail(const char* what, std::string_view condition, const std::string& values,
                       const SourceLocation& place);

inline void check(bool holds, const char* condition, const char* what,
                  SourceLocation place = SourceLocation::current()) {
  if (!holds) fail(what, condition, "", place);
}

template <class T>
void check(const Operand<T>& operand, const char* condition, const char* what,
           SourceLocation place = SourceLocation::current()) {
  check(static_cast<bool>(operand), condition, what, place);
}

template <class L, class R>
void check(const Comparison<L, R>& comparison, const char* condition, const char* what,
           SourceLocation place = SourceLocation::current()) {
  if (!comparison.holds) fail(what, condition, comparison.values(), place);
}

}  // namespace sft::ensure_detail
