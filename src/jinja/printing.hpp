// SPDX-License-Identifier: Apache-2.0
#pragma once
// How values print.

#include <string>

#include "jinja/value.hpp"

namespace sft::jinja {

/// Python's str(); of an undefined value nothing. Fails for what prints an address in Python (macros, generators ...).
[[nodiscard]] TextRef to_text(Evaluator& evaluator, const Value& value);
/// Python's repr().
[[nodiscard]] TextRef to_repr(Evaluator& evaluator, const Value& value);
/// The shortest digits that are read back as the same number, with ".0" or an exponent as Python writes them.
[[nodiscard]] std::string float_text(double number);

}  // namespace sft::jinja
