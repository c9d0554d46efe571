// SPDX-License-Identifier: Apache-2.0
#include "jinja/expression_parser.hpp"

#include <fmt/core.h>
#include <algorithm>

namespace sft::jinja {

using Kind = Expression::Kind;

namespace {

/// Levels of an expression's tree. A row such as `a + b + c` has one for every operator.
constexpr std::size_t max_height = 400;

}  // namespace

ExpressionRef ExpressionParser::make(Kind kind, int line) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  return expression;
}

void ExpressionParser::rise(Expression& expression, const Expression& below) const {
  expression.height = std::max(expression.height, below.height + 1);
  if (expression.height > max_height) {
    tokens_.fail(fmt::format("an expression is nested more than {} deep", max_height));
  }
}

void ExpressionParser::add(Expression& expression, ExpressionRef operand) const {
  if (operand) rise(expression, *operand);
  expression.operands.push_back(std::move(operand));
}

ExpressionRef ExpressionParser::make(Kind kind, int line, ExpressionRef first, ExpressionRef second) const {
  ExpressionRef expression = make(kind, line);
  add(*expression, std::move(first));
  if (second) add(*expression, std::move(second));
  return expression;
}

ExpressionRef ExpressionParser::parse(bool with_condition) {
  const Nesting::Level level(nesting_, tokens_);
  ExpressionRef expression = parse_either();
  while (with_condition && tokens_.is_name("if")) {
    const int line = tokens_.next().line;
    expression = make(Kind::conditional, line, std::move(expression), parse_either());
    if (tokens_.skip_name("else")) add(*expression, parse());
  }
  return expression;
}

ExpressionRef ExpressionParser::parse_tuple(bool with_condition, std::string_view end_word) {
  const int line = tokens_.line();
  std::vector<ExpressionRef> items;
  bool is_tuple = false;
  const auto at_end = [&] {
    return tokens_.is(Token::Kind::variable_end) || tokens_.is(Token::Kind::block_end) || tokens_.is_symbol(")") ||
           (!end_word.empty() && tokens_.is_name(end_word));
  };
  while (!at_end()) {
    items.push_back(parse(with_condition));
    if (!tokens_.skip_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.empty()) tokens_.fail_expected("an expression");
  if (!is_tuple) return std::move(items.front());
  ExpressionRef tuple = make(Kind::tuple, line);
  for (ExpressionRef& item : items) add(*tuple, std::move(item));
  return tuple;
}

ExpressionRef ExpressionParser::parse_target(bool with_members, std::string_view end_word) {
  const Nesting::Level level(nesting_, tokens_);
  const int line = tokens_.line();
  std::vector<ExpressionRef> items;
  bool is_tuple = false;
  while (true) {
    if (tokens_.skip_symbol("(")) {
      items.push_back(parse_target(with_members));
      tokens_.expect_symbol(")");
    } else {
      ExpressionRef name = make(Kind::name, tokens_.line());
      name->name = tokens_.expect_identifier();
      static constexpr std::string_view reserved[] = {"true", "false", "none", "True", "False", "None"};
      if (std::find(std::begin(reserved), std::end(reserved), name->name) != std::end(reserved)) {
        tokens_.fail(fmt::format("'{}' cannot be assigned to", name->name));
      }
      if (with_members && tokens_.skip_symbol(".")) {
        name->kind = Kind::member;
        name->attribute = tokens_.expect_identifier();
      }
      items.push_back(std::move(name));
    }
    if (!tokens_.skip_symbol(",")) break;
    is_tuple = true;
    const bool at_end = tokens_.is_symbol("=") || tokens_.is_symbol(")") || tokens_.is(Token::Kind::block_end) ||
                        (!end_word.empty() && tokens_.is_name(end_word));
    if (at_end) break;
  }
  if (!is_tuple) return std::move(items.front());
  ExpressionRef tuple = make(Kind::tuple, line);
  for (ExpressionRef& item : items) add(*tuple, std::move(item));
  return tuple;
}

ExpressionRef ExpressionParser::parse_either() {
  ExpressionRef left = parse_both();
  while (tokens_.is_name("or")) {
    const int line = tokens_.next().line;
    left = make(Kind::either, line, std::move(left), parse_both());
  }
  return left;
}

ExpressionRef ExpressionParser::parse_both() {
  ExpressionRef left = parse_not();
  while (tokens_.is_name("and")) {
    const int line = tokens_.next().line;
    left = make(Kind::both, line, std::move(left), parse_not());
  }
  return left;
}

ExpressionRef ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_comparison();
  const Nesting::Level level(nesting_, tokens_);
  const int line = tokens_.next().line;
  ExpressionRef inverted = make(Kind::unary, line, parse_not());
  inverted->operators = {Operator::invert};
  return inverted;
}

ExpressionRef ExpressionParser::parse_comparison() {
  static constexpr std::pair<std::string_view, Operator> symbols[] = {
      {"==", Operator::equal},      {"!=", Operator::not_equal}, {"<", Operator::less},
      {"<=", Operator::less_equal}, {">", Operator::greater},    {">=", Operator::greater_equal}};
  ExpressionRef first = parse_sum();
  ExpressionRef comparison;
  while (true) {
    const int line = tokens_.line();
    const auto symbol = std::find_if(std::begin(symbols), std::end(symbols),
                                     [&](const auto& entry) { return tokens_.is_symbol(entry.first); });
    Operator which{};
    if (symbol != std::end(symbols)) {
      which = symbol->second;
      tokens_.next();
    } else if (tokens_.skip_name("in")) {
      which = Operator::in;
    } else if (tokens_.is_name("not") && tokens_.following().kind == Token::Kind::name &&
               tokens_.following().text == "in") {
      tokens_.next();
      tokens_.next();
      which = Operator::not_in;
    } else {
      break;
    }
    if (!comparison) comparison = make(Kind::comparison, line, std::move(first));
    comparison->operators.push_back(which);
    add(*comparison, parse_sum());
  }
  return comparison ? std::move(comparison) : std::move(first);
}

ExpressionRef ExpressionParser::parse_sum() {
  ExpressionRef left = parse_concat();
  while (tokens_.is_symbol("+") || tokens_.is_symbol("-")) {
    const Token& token = tokens_.next();
    left = make(Kind::binary, token.line, std::move(left), parse_concat());
    left->operators = {token.text == "+" ? Operator::add : Operator::subtract};
  }
  return left;
}

ExpressionRef ExpressionParser::parse_concat() {
  ExpressionRef first = parse_product();
  if (!tokens_.is_symbol("~")) return first;
  ExpressionRef concat = make(Kind::concat, tokens_.line(), std::move(first));
  while (tokens_.skip_symbol("~")) add(*concat, parse_product());
  return concat;
}

ExpressionRef ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, Operator> symbols[] = {
      {"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}};
  ExpressionRef left = parse_unary();
  while (true) {
    const auto symbol = std::find_if(std::begin(symbols), std::end(symbols),
                                     [&](const auto& entry) { return tokens_.is_symbol(entry.first); });
    if (tokens_.is_symbol("**")) tokens_.refuse("the operator **");
    if (symbol == std::end(symbols)) return left;
    const int line = tokens_.next().line;
    left = make(Kind::binary, line, std::move(left), parse_unary());
    left->operators = {symbol->second};
  }
}

ExpressionRef ExpressionParser::parse_unary(bool with_filter) {
  const Nesting::Level level(nesting_, tokens_);
  ExpressionRef expression;
  if (tokens_.is_symbol("-") || tokens_.is_symbol("+")) {
    const Token& sign = tokens_.next();
    expression = make(Kind::unary, sign.line, parse_unary(false));
    expression->operators = {sign.text == "-" ? Operator::negative : Operator::positive};
  } else {
    expression = parse_primary();
  }
  expression = parse_postfix(std::move(expression));
  return with_filter ? parse_filters_and_tests(std::move(expression)) : std::move(expression);
}

ExpressionRef ExpressionParser::parse_primary() {
  const Token& token = tokens_.current();
  if (token.kind == Token::Kind::name) return parse_name();
  if (token.kind == Token::Kind::string) return parse_strings();
  if (token.kind == Token::Kind::integer || token.kind == Token::Kind::floating) {
    ExpressionRef number = make(Kind::constant, token.line);
    number->value = token.kind == Token::Kind::integer ? Value(token.integer) : Value(token.floating);
    tokens_.next();
    return number;
  }
  if (tokens_.is_symbol("(")) return parse_parentheses();
  if (tokens_.is_symbol("[")) return parse_list();
  if (tokens_.is_symbol("{")) return parse_dict();
  tokens_.fail_expected("an expression");
}

ExpressionRef ExpressionParser::parse_name() {
  const Token& token = tokens_.next();
  ExpressionRef expression = make(Kind::constant, token.line);
  if (token.text == "true" || token.text == "True") {
    expression->value = true;
  } else if (token.text == "false" || token.text == "False") {
    expression->value = false;
  } else if (token.text == "none" || token.text == "None") {
    expression->value = None{};
  } else {
    expression->kind = Kind::name;
    expression->name = token.text;
  }
  return expression;
}

ExpressionRef ExpressionParser::parse_strings() {
  ExpressionRef string = make(Kind::constant, tokens_.line());
  std::string text;
  while (tokens_.is(Token::Kind::string)) text += tokens_.next().text;
  string->value = make_text(nullptr, text);
  return string;
}

ExpressionRef ExpressionParser::parse_parentheses() {
  const Nesting::Level level(nesting_, tokens_);
  const int line = tokens_.next().line;
  ExpressionRef inner = tokens_.is_symbol(")") ? make(Kind::tuple, line) : parse_tuple();
  tokens_.expect_symbol(")");
  return inner;
}

ExpressionRef ExpressionParser::parse_list() {
  ExpressionRef list = make(Kind::list, tokens_.next().line);
  while (!tokens_.is_symbol("]")) {
    add(*list, parse());
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol("]");
  return list;
}

ExpressionRef ExpressionParser::parse_dict() {
  ExpressionRef dict = make(Kind::dict, tokens_.next().line);
  while (!tokens_.is_symbol("}")) {
    add(*dict, parse());
    tokens_.expect_symbol(":");
    add(*dict, parse());
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol("}");
  return dict;
}

}  // namespace sft::jinja
