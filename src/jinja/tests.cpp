// SPDX-License-Identifier: Apache-2.0
// What stands behind `is`.

#include <map>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/evaluator.hpp"
#include "jinja/operators.hpp"
#include "jinja/printing.hpp"
#include "jinja/registry.hpp"
#include "jinja/unicode.hpp"

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

std::int64_t modulo_of(Evaluator& evaluator, const Value& value, const Value& divisor) {
  const Value rest = apply_binary(evaluator, Operator::modulo, value, divisor);
  if (const auto* number = rest.get<double>()) return *number == 0 ? 0 : (*number == 1 ? 1 : 2);
  return require_integer(rest, "the test");
}

/// Whether all letters that have a case have this one, and there is one.
bool has_case(Heap& heap, std::string_view text, bool is_upper_case) {
  heap.step(text.size() / 4);
  bool has_any = false;
  for (std::size_t position = 0; position < text.size();) {
    const CodePoint c = next_code_point(text, position);
    if (is_title(c) || (is_upper_case ? is_lower(c) : is_upper(c))) return false;
    has_any |= is_upper_case ? is_upper(c) : is_lower(c);
  }
  return has_any;
}

/// The one argument of a comparison.
const Value& other_of(const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) throw Failure("the test needs one argument");
  return arguments.positional[0];
}

bool test_same(Evaluator&, const Value& value, const Arguments& arguments) {
  const Value& other = other_of(arguments);
  if (value.data().index() != other.data().index()) return false;
  if (value.is_none()) return true;
  if (const bool* truth = value.get<bool>()) return *truth == *other.get<bool>();
  if (const auto* list = value.get<ListRef>()) return *list == *other.get<ListRef>();
  if (const auto* dict = value.get<DictRef>()) return *dict == *other.get<DictRef>();
  if (const auto* space = value.get<NamespaceRef>()) return *space == *other.get<NamespaceRef>();
  fail_unsupported("the test 'sameas' of " + type_name(value));
}

bool test_equal(Evaluator& e, const Value& v, const Arguments& a) { return are_equal(e.heap(), v, other_of(a)); }
bool test_less(Evaluator& e, const Value& v, const Arguments& a) { return is_less(e.heap(), v, other_of(a)); }
bool test_greater(Evaluator& e, const Value& v, const Arguments& a) { return is_less(e.heap(), other_of(a), v); }
bool test_less_equal(Evaluator& e, const Value& v, const Arguments& a) { return is_at_most(e.heap(), v, other_of(a)); }
bool test_greater_equal(Evaluator& e, const Value& v, const Arguments& a) {
  return is_at_most(e.heap(), other_of(a), v);
}

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
bool is_integer(const Value& value) { return value.get<std::int64_t>() != nullptr; }
bool is_float(const Value& value) { return value.get<double>() != nullptr; }
bool is_number(const Value& value) { return as_number(value).has_value(); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_callable(const Value& value) {
  return value.get<FunctionRef>() || value.get<MacroRef>() || value.get<LoopRef>() || value.is_undefined();
}
bool is_escaped(const Value& value) { return value.text() != nullptr && value.text()->is_markup; }

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
      {"callable", test_value<is_callable>},
      {"escaped", test_value<is_escaped>},
      {"lower",
       [](Evaluator& e, const Value& v, const Arguments&) { return has_case(e.heap(), to_text(e, v)->bytes, false); }},
      {"upper",
       [](Evaluator& e, const Value& v, const Arguments&) { return has_case(e.heap(), to_text(e, v)->bytes, true); }},
      {"odd", [](Evaluator& e, const Value& v, const Arguments&) { return modulo_of(e, v, std::int64_t{2}) == 1; }},
      {"even", [](Evaluator& e, const Value& v, const Arguments&) { return modulo_of(e, v, std::int64_t{2}) == 0; }},
      {"divisibleby",
       [](Evaluator& e, const Value& v, const Arguments& a) { return modulo_of(e, v, other_of(a)) == 0; }},
      {"in", [](Evaluator& e, const Value& v, const Arguments& a) { return contains(e.heap(), other_of(a), v); }},
      {"filter",
       [](Evaluator&, const Value& v, const Arguments&) {
         return find_filter(require_text(v, "the name of a filter")->bytes) != nullptr;
       }},
      {"test", [](Evaluator&, const Value& v,
                  const Arguments&) { return find_test(require_text(v, "the name of a test")->bytes) != nullptr; }},
      {"sameas", test_same},
      {"==", test_equal},
      {"eq", test_equal},
      {"equalto", test_equal},
      {"!=", [](Evaluator& e, const Value& v, const Arguments& a) { return !test_equal(e, v, a); }},
      {"ne", [](Evaluator& e, const Value& v, const Arguments& a) { return !test_equal(e, v, a); }},
      {"<", test_less},
      {"lt", test_less},
      {"lessthan", test_less},
      {">", test_greater},
      {"gt", test_greater},
      {"greaterthan", test_greater},
      {"<=", test_less_equal},
      {"le", test_less_equal},
      {">=", test_greater_equal},
      {"ge", test_greater_equal},
  };
  return all;
}

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found = tests().find(name);
  return found == tests().end() ? nullptr : found->second;
}

}  // namespace sft::jinja
