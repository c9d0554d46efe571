// SPDX-License-Identifier: Apache-2.0
#pragma once
// The value of a string literal.

#include <string>
#include <string_view>

namespace sft::jinja {

/// What stands between the quotes, with Python's escapes replaced. Fails on a broken escape and on \N{...}.
[[nodiscard]] std::string unescape(std::string_view literal);

}  // namespace sft::jinja
