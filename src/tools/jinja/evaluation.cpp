// SPDX-License-Identifier: Apache-2.0
// Expressions.

#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "jinja/evaluator.hpp"
#include "jinja/operators.hpp"
#include "jinja/registry.hpp"

namespace sft::jinja {

Value Evaluator::make_list(List::Kind kind, std::vector<Value> items, std::int32_t source) {
  heap_.step(items.size());
  return std::make_shared<const List>(&heap_, kind, std::move(items), source);
}

Value Evaluator::evaluate(const Expression& expression) {
  using Kind = Expression::Kind;
  const Depth depth(*this);
  heap_.step();
  line_ = expression.line;
  const auto operand = [&](std::size_t i) { return evaluate(*expression.operands[i]); };
  switch (expression.kind) {
    case Kind::constant:
      return expression.value;
    case Kind::name:
    case Kind::member:
      return evaluate_name(expression);
    case Kind::list:
      return make_list(List::Kind::list, evaluate_all(expression.operands, 0));
    case Kind::tuple:
      return make_list(List::Kind::tuple, evaluate_all(expression.operands, 0));
    case Kind::dict:
      return evaluate_dict(expression);
    case Kind::attribute: {
      const Value object = operand(0);
      line_ = expression.line;
      return get_attribute(object, expression.attribute);
    }
    case Kind::item: {
      const Value object = operand(0);
      const Value key = operand(1);
      line_ = expression.line;
      return get_item(object, key);
    }
    case Kind::slice:
      return evaluate_slice(expression);
    case Kind::call:
      return evaluate_call(expression);
    case Kind::filter:
      return evaluate_filter(expression);
    case Kind::test: {
      const Value input = operand(0);
      const Arguments arguments = evaluate_arguments(expression);
      line_ = expression.line;
      if (expression.test == nullptr) fail_unsupported(fmt::format("the test '{}'", expression.name));
      return expression.test(*this, input, arguments);
    }
    case Kind::unary: {
      const Value value = operand(0);
      line_ = expression.line;
      return apply_unary(expression.operators[0], value);
    }
    case Kind::binary: {
      const Value left = operand(0);
      const Value right = operand(1);
      line_ = expression.line;
      return apply_binary(*this, expression.operators[0], left, right);
    }
    case Kind::comparison:
      return evaluate_comparison(expression);
    case Kind::concat:
      return evaluate_concat(expression);
    case Kind::both: {
      Value left = operand(0);
      return is_true(left) ? operand(1) : left;
    }
    case Kind::either: {
      Value left = operand(0);
      return is_true(left) ? left : operand(1);
    }
    case Kind::conditional:
      return evaluate_conditional(expression);
  }
  return {};
}

Value Evaluator::evaluate_name(const Expression& expression) {
  const Value& value = slot(*frame_, expression.place);
  return value.is_missing() ? make_undefined(fmt::format("'{}' is undefined", expression.name)) : value;
}

std::vector<Value> Evaluator::evaluate_all(const std::vector<ExpressionRef>& expressions, std::size_t first) {
  std::vector<Value> values;
  values.reserve(expressions.size() - std::min(first, expressions.size()));
  for (std::size_t i = first; i < expressions.size(); ++i) values.push_back(evaluate(*expressions[i]));
  return values;
}

Value Evaluator::evaluate_dict(const Expression& expression) {
  Dict::Entries entries;
  for (std::size_t i = 0; i < expression.operands.size(); i += 2) {
    Value key = evaluate(*expression.operands[i]);
    require_key(key);
    entries.emplace_back(std::move(key), evaluate(*expression.operands[i + 1]));
  }
  return std::make_shared<const Dict>(&heap_, std::move(entries));
}

Value Evaluator::evaluate_slice(const Expression& expression) {
  const Value object = evaluate(*expression.operands[0]);
  std::optional<std::int64_t> bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!expression.operands[i + 1]) continue;
    const Value bound = evaluate(*expression.operands[i + 1]);
    if (!bound.is_none()) bounds[i] = require_integer(bound, "a slice");
  }
  line_ = expression.line;
  return slice(*this, object, bounds[0], bounds[1], bounds[2]);
}

Arguments Evaluator::evaluate_arguments(const Expression& expression) {
  Arguments arguments;
  arguments.positional = evaluate_all(expression.operands, 1);
  for (const auto& [name, argument] : expression.named) arguments.named.emplace_back(name, evaluate(*argument));
  if (expression.star) {
    for (Value& item : items_of(heap_, evaluate(*expression.star))) arguments.positional.push_back(std::move(item));
  }
  return arguments;
}

Value Evaluator::evaluate_call(const Expression& expression) {
  const Expression& callee = *expression.operands[0];
  if (callee.kind == Expression::Kind::attribute) {
    // The common case, without an object for the bound method.
    const Value object = evaluate(*callee.operands[0]);
    const MethodLookup method = find_method(object, callee.attribute);
    if (method.kind == MethodLookup::Kind::method) {
      const Arguments arguments = evaluate_arguments(expression);
      line_ = expression.line;
      return method.call(*this, object, arguments);
    }
    line_ = callee.line;
    const Value function = get_attribute(object, callee.attribute);
    const Arguments arguments = evaluate_arguments(expression);
    line_ = expression.line;
    return call(function, arguments);
  }
  const Value function = evaluate(callee);
  const Arguments arguments = evaluate_arguments(expression);
  line_ = expression.line;
  return call(function, arguments);
}

Value Evaluator::evaluate_filter(const Expression& expression) {
  const Value input = expression.operands[0] ? evaluate(*expression.operands[0]) : block_text_;
  const Arguments arguments = evaluate_arguments(expression);
  line_ = expression.line;
  if (expression.filter == nullptr) fail_unsupported(fmt::format("the filter '{}'", expression.name));
  return expression.filter(*this, input, arguments);
}

Value Evaluator::evaluate_concat(const Expression& expression) {
  TextBuilder text(&heap_);
  for (const ExpressionRef& operand : expression.operands) {
    text.append_in_turn(*to_text(*this, evaluate(*operand)), turn_, false);
  }
  return text.take();
}

Value Evaluator::evaluate_conditional(const Expression& expression) {
  const bool is_chosen = is_true(evaluate(*expression.operands[1]));
  if (is_chosen) return evaluate(*expression.operands[0]);
  if (expression.operands.size() > 2) return evaluate(*expression.operands[2]);
  if (has_values_only_) return make_text(&heap_, "");
  return make_undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", expression.line));
}

Value Evaluator::evaluate_comparison(const Expression& expression) {
  Value left = evaluate(*expression.operands[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.operands[i + 1]);
    line_ = expression.line;
    if (!compare(expression.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

bool Evaluator::compare(Operator which, const Value& left, const Value& right) {
  switch (which) {
    case Operator::equal:
      return are_equal(heap_, left, right);
    case Operator::not_equal:
      return !are_equal(heap_, left, right);
    case Operator::less:
      return is_less(heap_, left, right);
    case Operator::greater:
      return is_less(heap_, right, left);
    case Operator::less_equal:
      return is_at_most(heap_, left, right);
    case Operator::greater_equal:
      return is_at_most(heap_, right, left);
    case Operator::in:
      return contains(heap_, right, left);
    default:
      return !contains(heap_, right, left);
  }
}

Value Evaluator::get_attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) throw Failure(undefined_message(object));
  const MethodLookup method = find_method(object, name);
  switch (method.kind) {
    case MethodLookup::Kind::method:
      return std::make_shared<const Function>(Function{name, method.call, object});
    case MethodLookup::Kind::forbidden:
      return make_undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
    case MethodLookup::Kind::unsupported:
      fail_unsupported(fmt::format("the attribute '{}' of {}", name, type_name(object)));
    case MethodLookup::Kind::none:
      break;
  }
  if (const auto* loop = object.get<LoopRef>()) {
    if (std::optional<Value> value = (*loop)->attribute(name)) return *std::move(value);
  }
  if (const auto* space = object.get<NamespaceRef>()) {
    if (const Value* value = (*space)->find(name)) return *value;
  }
  if (const auto* macro = object.get<MacroRef>(); macro != nullptr && name == "name") {
    return make_text(&heap_, (*macro)->syntax->name);
  }
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(std::string_view(name))) return *value;
  }
  return make_undefined(fmt::format("'{}' has no attribute '{}'", type_name(object), name));
}

Value Evaluator::get_item(const Value& object, const Value& key) {
  if (object.is_undefined()) throw Failure(undefined_message(object));
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(key)) return *value;
  } else if (const auto index = as_integer(key)) {
    if (std::optional<Value> item = item_at(*this, object, *index)) return *std::move(item);
    return make_undefined(fmt::format("'{}' has no element {}", type_name(object), *index));
  }
  if (const Text* name = key.text()) return get_attribute(object, name->bytes);
  return make_undefined(fmt::format("'{}' has no such element", type_name(object)));
}

}  // namespace sft::jinja
