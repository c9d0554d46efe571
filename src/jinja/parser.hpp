// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens to a syntax tree.

#include <string_view>

#include "jinja/syntax.hpp"

namespace sft::jinja {

/// The syntax tree of a template, its names not yet bound to places (symbols.hpp). Throws a data Error that names the
/// line.
[[nodiscard]] Syntax parse(std::string_view source);

}  // namespace sft::jinja
