// SPDX-License-Identifier: Apache-2.0
#pragma once
// The filters, by what they work on; registry.cpp has their names.

#include "jinja/evaluator.hpp"

namespace sft::jinja {

// filters_text.cpp
Value filter_capitalize(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_indent(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_lower(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_replace(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_safe(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_string(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_title(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_tojson(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_trim(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_upper(Evaluator& evaluator, const Value& input, const Arguments& arguments);

// filters_values.cpp
Value filter_default(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_int(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_items(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_length(Evaluator& evaluator, const Value& input, const Arguments& arguments);

// filters_sequences.cpp
Value filter_first(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_join(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_last(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_list(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_map(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_reject(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_rejectattr(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_reverse(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_select(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_selectattr(Evaluator& evaluator, const Value& input, const Arguments& arguments);

// filters_order.cpp
Value filter_dictsort(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_max(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_min(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_sort(Evaluator& evaluator, const Value& input, const Arguments& arguments);
Value filter_unique(Evaluator& evaluator, const Value& input, const Arguments& arguments);

/// The member of an item that a dotted path such as "function.name" or an index names; Python's make_attrgetter.
[[nodiscard]] Value member_of(Evaluator& evaluator, const Value& item, const Value& path,
                              const Value* otherwise = nullptr);

}  // namespace sft::jinja
