// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python's two ways to fill values into a string.

#include "jinja/value.hpp"

namespace sft::jinja {

/// `format % values`, values a tuple, a mapping or one value: %s %r %d %i %u %f %F %e %E %g %G %x %X %o %c %% with
/// flags, width and precision. Fails on any other.
[[nodiscard]] Value format_percent(Evaluator& evaluator, const TextRef& format, const Value& values);

/// `format.format(...)`: fields by position and name with attributes, items and !s or !r; specifications of strings
/// (fill, alignment, width, precision), integers (d) and floats (f) with sign, 0, width, comma and precision. Fails on
/// any other.
[[nodiscard]] Value format_braces(Evaluator& evaluator, const TextRef& format, const Arguments& arguments);

}  // namespace sft::jinja
