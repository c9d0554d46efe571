// SPDX-License-Identifier: Apache-2.0
#pragma once
// The expressions of a template, by Jinja's order of precedence.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/syntax.hpp"
#include "jinja/token_stream.hpp"

namespace sft::jinja {

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, Nesting& nesting) : tokens_(tokens), nesting_(nesting) {}

  /// Any expression; without `a if b else c` if `with_condition` is false.
  [[nodiscard]] ExpressionRef parse(bool with_condition = true);
  /// An expression, or several with commas between them, which make a tuple. A name `end_word` ends it.
  [[nodiscard]] ExpressionRef parse_tuple(bool with_condition = true, std::string_view end_word = {});
  /// What can be assigned to: a name, with `with_members` a member of a namespace, or a tuple of these.
  [[nodiscard]] ExpressionRef parse_target(bool with_members, std::string_view end_word = {});
  /// `name(arguments)|name...`: the filters of a block, whose first one has no input.
  [[nodiscard]] ExpressionRef parse_filters();

 private:
  ExpressionRef make(Expression::Kind kind, int line) const;
  ExpressionRef make(Expression::Kind kind, int line, ExpressionRef first, ExpressionRef second = nullptr) const;
  /// Appends an operand, which may be missing; fails where the tree becomes too deep to be walked.
  void add(Expression& expression, ExpressionRef operand) const;
  void rise(Expression& expression, const Expression& below) const;

  ExpressionRef parse_either();
  ExpressionRef parse_both();
  ExpressionRef parse_not();
  ExpressionRef parse_comparison();
  ExpressionRef parse_sum();
  ExpressionRef parse_concat();
  ExpressionRef parse_product();
  ExpressionRef parse_unary(bool with_filter = true);
  ExpressionRef parse_primary();
  ExpressionRef parse_name();
  ExpressionRef parse_strings();
  ExpressionRef parse_parentheses();
  ExpressionRef parse_list();
  ExpressionRef parse_dict();
  ExpressionRef parse_postfix(ExpressionRef expression);
  ExpressionRef parse_filters_and_tests(ExpressionRef expression);
  ExpressionRef parse_attribute(ExpressionRef object);
  ExpressionRef parse_subscript(ExpressionRef object);
  ExpressionRef parse_call(ExpressionRef callee);
  ExpressionRef parse_filter(ExpressionRef input);
  ExpressionRef parse_test(ExpressionRef input);
  std::string parse_dotted_name();
  void parse_arguments(Expression& call);

  TokenStream& tokens_;
  Nesting& nesting_;
};

}  // namespace sft::jinja
