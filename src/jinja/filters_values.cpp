// SPDX-License-Identifier: Apache-2.0
// Filters of numbers and single values.

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/filters.hpp"
#include "jinja/numbers.hpp"
#include "jinja/registry.hpp"

namespace sft::jinja {

Value filter_abs(Evaluator&, const Value& input, const Arguments& arguments) {
  const Parameters none("abs", arguments, {});
  if (input.is_undefined()) throw Failure(undefined_message(input));
  if (const auto* number = input.get<double>()) return std::fabs(*number);
  const std::int64_t number = require_integer(input, "abs()");
  if (number == INT64_MIN) fail_unsupported("an integer beyond 64 bits");
  return number < 0 ? -number : number;
}

Value filter_attr(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("attr", arguments, {"name"}, 1);
  const std::string name = require_text(*parameters[0], "attr()")->bytes;
  // Members of a dict are items and no attributes.
  if (input.dict() != nullptr && find_method(input, name).kind == MethodLookup::Kind::none) {
    return make_undefined("'dict' has no attribute '" + name + "'");
  }
  return evaluator.get_attribute(input, name);
}

Value filter_default(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("default", arguments, {"default_value", "boolean"});
  const bool is_replaced = input.is_undefined() || (parameters.truth(1, false) && !is_true(input));
  if (!is_replaced) return input;
  return parameters[0] == nullptr ? Value(make_text(&evaluator.heap(), "")) : *parameters[0];
}

Value filter_float(Evaluator&, const Value& input, const Arguments& arguments) {
  const Parameters parameters("float", arguments, {"default"});
  const Value otherwise = parameters[0] == nullptr ? Value(0.0) : *parameters[0];
  if (input.is_undefined()) throw Failure(undefined_message(input));
  if (const auto number = as_number(input)) return *number;
  if (const Text* text = input.text()) {
    if (const auto number = parse_float(text->bytes)) return *number;
  }
  return otherwise;
}

Value filter_int(Evaluator&, const Value& input, const Arguments& arguments) {
  const Parameters parameters("int", arguments, {"default", "base"});
  const Value otherwise = parameters[0] == nullptr ? Value(std::int64_t{0}) : *parameters[0];
  if (input.is_undefined()) throw Failure(undefined_message(input));
  if (const auto number = as_integer(input)) return *number;
  std::optional<double> number;
  if (const Text* text = input.text()) {
    if (const auto integer = parse_integer(text->bytes, parameters.integer(1, 10))) return *integer;
    number = parse_float(text->bytes);
  } else if (const auto* value = input.get<double>()) {
    number = *value;
  }
  if (!number || !std::isfinite(*number)) return otherwise;
  if (std::fabs(*number) >= 9.2e18) fail_unsupported("an integer beyond 64 bits");
  return static_cast<std::int64_t>(*number);
}

Value filter_items(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("items", arguments, {});
  if (!input.is_undefined() && input.dict() == nullptr) throw Failure("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  if (const Dict* dict = input.dict()) {
    for (const auto& [key, value] : dict->entries)
      pairs.push_back(evaluator.make_list(List::Kind::tuple, {key, value}));
  }
  return std::make_shared<Generator>(&evaluator.heap(), std::move(pairs));
}

Value filter_length(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("length", arguments, {});
  if (const Text* text = input.text()) evaluator.heap().step(text->bytes.size() / 16);
  return length_of(input);
}

Value filter_round(Evaluator&, const Value& input, const Arguments& arguments) {
  const Parameters parameters("round", arguments, {"precision", "method"});
  const std::int64_t precision = parameters.integer(0, 0);
  const std::string method = parameters[1] == nullptr ? "common" : require_text(*parameters[1], "round()")->bytes;
  if (input.is_undefined()) throw Failure(undefined_message(input));
  const auto number = as_number(input);
  if (!number) throw Failure("type " + type_name(input) + " doesn't define __round__ method");
  if (precision < -300 || precision > 300) fail_unsupported("rounding to that precision");
  if (method == "common") {
    if (as_integer(input) && precision >= 0) return *as_integer(input);
    if (as_integer(input)) fail_unsupported("rounding an integer to a negative precision");
    return round_to(*number, static_cast<int>(precision));
  }
  if (method != "ceil" && method != "floor") throw Failure("method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *number * scale;
  if (precision < 0) fail_unsupported("rounding up or down to a negative precision");
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

}  // namespace sft::jinja
