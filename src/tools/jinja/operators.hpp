// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python's operators.

#include <cstdint>
#include <optional>

#include "jinja/syntax.hpp"

namespace sft::jinja {

[[nodiscard]] Value apply_unary(Operator which, const Value& value);
[[nodiscard]] Value apply_binary(Evaluator& evaluator, Operator which, const Value& left, const Value& right);

/// Python's left <= right.
[[nodiscard]] bool is_at_most(Heap& heap, const Value& left, const Value& right);

/// `object[start:stop:step]` of a string, list, tuple or range; a missing bound is nothing.
[[nodiscard]] Value slice(Evaluator& evaluator, const Value& object, std::optional<std::int64_t> start,
                          std::optional<std::int64_t> stop, std::optional<std::int64_t> step);
/// The item with that index, a negative one from the end; nothing if there is none or the object has no items by index.
[[nodiscard]] std::optional<Value> item_at(Evaluator& evaluator, const Value& object, std::int64_t index);

/// `text` with & < > ' " as HTML entities, taken for finished; a finished string stays as it is.
[[nodiscard]] TextRef escape_html(Heap& heap, const TextRef& text);

}  // namespace sft::jinja
