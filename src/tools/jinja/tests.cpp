// SPDX-License-Identifier: Apache-2.0
// What stands behind `is`.

#include <map>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/evaluator.hpp"
#include "jinja/registry.hpp"

namespace sft::jinja {

namespace {

using Test = TestFunction;

bool is_iterable(const Value& value) {
  return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr || value.is_undefined() ||
         value.get<RangeRef>() || value.get<GeneratorRef>() || value.get<LoopRef>();
}

bool is_sequence(const Value& value) {
  const List* list = value.list();
  return value.text() != nullptr || value.dict() != nullptr || value.is_undefined() || value.get<RangeRef>() ||
         (list != nullptr && list->is_sequence());
}

/// The one argument of a comparison.
const Value& other_of(const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) throw Failure("the test needs one argument");
  return arguments.positional[0];
}

bool test_equal(Evaluator& e, const Value& v, const Arguments& a) { return are_equal(e.heap(), v, other_of(a)); }

/// A test of the value alone.
template <bool (*holds)(const Value&)>
bool test_value(Evaluator&, const Value& value, const Arguments& arguments) {
  const Parameters none("the test", arguments, {});
  return holds(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.get<bool>() != nullptr; }
bool is_the_true(const Value& value) { return is_boolean(value) && *value.get<bool>(); }
bool is_the_false(const Value& value) { return is_boolean(value) && !*value.get<bool>(); }
bool is_integer(const Value& value) {
  return value.get<std::int64_t>() != nullptr || value.get<BigIntegerRef>() != nullptr;
}
bool is_float(const Value& value) { return value.get<double>() != nullptr; }
bool is_number(const Value& value) { return as_number(value).has_value() || is_integer(value); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }

const std::map<std::string_view, Test>& tests() {
  static const std::map<std::string_view, Test> all = {
      {"defined", test_value<is_defined>},
      {"undefined", test_value<is_undefined>},
      {"none", test_value<is_none>},
      {"boolean", test_value<is_boolean>},
      {"true", test_value<is_the_true>},
      {"false", test_value<is_the_false>},
      {"integer", test_value<is_integer>},
      {"float", test_value<is_float>},
      {"number", test_value<is_number>},
      {"string", test_value<is_string>},
      {"mapping", test_value<is_mapping>},
      {"sequence", test_value<is_sequence>},
      {"iterable", test_value<is_iterable>},
      {"in", [](Evaluator& e, const Value& v, const Arguments& a) { return contains(e.heap(), other_of(a), v); }},
      {"==", test_equal},
      {"eq", test_equal},
      {"equalto", test_equal},
      {"!=", [](Evaluator& e, const Value& v, const Arguments& a) { return !test_equal(e, v, a); }},
      {"ne", [](Evaluator& e, const Value& v, const Arguments& a) { return !test_equal(e, v, a); }},
  };
  return all;
}

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found = tests().find(name);
  return found == tests().end() ? nullptr : found->second;
}

}  // namespace sft::jinja
