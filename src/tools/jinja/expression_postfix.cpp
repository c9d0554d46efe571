// SPDX-License-Identifier: Apache-2.0
// What follows an expression: attributes, items, calls, filters and tests.

#include <fmt/core.h>
#include <algorithm>

#include "jinja/expression_parser.hpp"
#include "jinja/registry.hpp"

namespace sft::jinja {

using Kind = Expression::Kind;

ExpressionRef ExpressionParser::parse_postfix(ExpressionRef expression) {
  while (true) {
    if (tokens_.is_symbol(".")) {
      expression = parse_attribute(std::move(expression));
    } else if (tokens_.is_symbol("[")) {
      expression = parse_subscript(std::move(expression));
    } else if (tokens_.is_symbol("(")) {
      expression = parse_call(std::move(expression));
    } else {
      return expression;
    }
  }
}

ExpressionRef ExpressionParser::parse_filters_and_tests(ExpressionRef expression) {
  while (true) {
    if (tokens_.is_symbol("|")) {
      tokens_.next();
      expression = parse_filter(std::move(expression));
    } else if (tokens_.is_name("is")) {
      expression = parse_test(std::move(expression));
    } else if (tokens_.is_symbol("(")) {
      expression = parse_call(std::move(expression));
    } else {
      return expression;
    }
  }
}

ExpressionRef ExpressionParser::parse_attribute(ExpressionRef object) {
  const int line = tokens_.next().line;
  if (tokens_.is(Token::Kind::integer)) {
    ExpressionRef index = make(Kind::constant, line);
    index->value = tokens_.next().integer;
    return make(Kind::item, line, std::move(object), std::move(index));
  }
  ExpressionRef attribute = make(Kind::attribute, line, std::move(object));
  attribute->attribute = tokens_.expect_identifier();
  return attribute;
}

ExpressionRef ExpressionParser::parse_subscript(ExpressionRef object) {
  const int line = tokens_.next().line;
  const auto at_end = [&] { return tokens_.is_symbol("]") || tokens_.is_symbol(",") || tokens_.is_symbol(":"); };
  ExpressionRef start = at_end() ? nullptr : parse();
  if (start && tokens_.skip_symbol("]")) return make(Kind::item, line, std::move(object), std::move(start));
  ExpressionRef slice = make(Kind::slice, line, std::move(object));
  tokens_.expect_symbol(":");
  ExpressionRef stop = at_end() ? nullptr : parse();
  ExpressionRef step;
  if (tokens_.skip_symbol(":") && !at_end()) step = parse();
  tokens_.expect_symbol("]");
  add(*slice, std::move(start));
  add(*slice, std::move(stop));
  add(*slice, std::move(step));
  return slice;
}

ExpressionRef ExpressionParser::parse_call(ExpressionRef callee) {
  ExpressionRef call = make(Kind::call, tokens_.line(), std::move(callee));
  parse_arguments(*call);
  return call;
}

ExpressionRef ExpressionParser::parse_filters() {
  ExpressionRef filters = parse_filter(nullptr);
  while (tokens_.skip_symbol("|")) filters = parse_filter(std::move(filters));
  return filters;
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = tokens_.expect_identifier();
  while (tokens_.skip_symbol(".")) name += "." + tokens_.expect_identifier();
  return name;
}

ExpressionRef ExpressionParser::parse_filter(ExpressionRef input) {
  const int line = tokens_.line();
  ExpressionRef filter = make(Kind::filter, line);
  if (input) {
    filter = make(Kind::filter, line, std::move(input));
  } else {
    add(*filter, nullptr);
  }
  filter->name = parse_dotted_name();
  filter->filter = find_filter(filter->name);
  if (tokens_.is_symbol("(")) parse_arguments(*filter);
  return filter;
}

ExpressionRef ExpressionParser::parse_test(ExpressionRef input) {
  const int line = tokens_.next().line;
  const bool is_inverted = tokens_.skip_name("not");
  ExpressionRef test = make(Kind::test, line, std::move(input));
  test->name = parse_dotted_name();
  test->test = find_test(test->name);
  const Token& token = tokens_.current();
  const bool is_word = token.kind == Token::Kind::name;
  const bool ends = is_word && (token.text == "else" || token.text == "or" || token.text == "and");
  const bool is_literal = token.kind == Token::Kind::string || token.kind == Token::Kind::integer ||
                          token.kind == Token::Kind::floating || tokens_.is_symbol("[") || tokens_.is_symbol("{");
  if (tokens_.is_symbol("(")) {
    parse_arguments(*test);
  } else if ((is_word && !ends) || is_literal) {
    if (tokens_.is_name("is")) tokens_.fail("tests with 'is' cannot be chained");
    add(*test, parse_postfix(parse_primary()));
  }
  if (!is_inverted) return test;
  ExpressionRef inverted = make(Kind::unary, line, std::move(test));
  inverted->operators = {Operator::invert};
  return inverted;
}

void ExpressionParser::parse_arguments(Expression& call) {
  tokens_.expect_symbol("(");
  while (!tokens_.is_symbol(")")) {
    if (tokens_.is_symbol("**")) tokens_.refuse("the argument **");
    if (tokens_.skip_symbol("*")) {
      if (call.star) tokens_.fail("the arguments of a call are out of order");
      call.star = parse();
      rise(call, *call.star);
    } else if (tokens_.is(Token::Kind::name) && tokens_.following().kind == Token::Kind::symbol &&
               tokens_.following().text == "=") {
      std::string name = tokens_.next().text;
      tokens_.next();
      const bool is_known =
          std::any_of(call.named.begin(), call.named.end(), [&](const auto& e) { return e.first == name; });
      if (is_known) tokens_.fail(fmt::format("the argument '{}' is given twice", name));
      call.named.emplace_back(std::move(name), parse());
      rise(call, *call.named.back().second);
    } else {
      if (call.star || !call.named.empty()) tokens_.fail("the arguments of a call are out of order");
      add(call, parse());
    }
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol(")");
}

}  // namespace sft::jinja
