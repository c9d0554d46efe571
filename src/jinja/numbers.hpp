// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers from text and rounded, as Python does it.

#include <cstdint>
#include <optional>
#include <string_view>

namespace sft::jinja {

/// float(text); nothing where Python raises ValueError.
[[nodiscard]] std::optional<double> parse_float(std::string_view text);
/// int(text, base); nothing where Python raises ValueError. Fails for numbers beyond 64 bits and bases but 2, 8,
/// 10, 16.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base);
/// round(number, precision): to the nearest decimal, ties of the exact value to even. |precision| <= 300.
[[nodiscard]] double round_to(double number, int precision);

}  // namespace sft::jinja
