// SPDX-License-Identifier: Apache-2.0
// The statements of a template.

#include <fmt/core.h>
#include <algorithm>
#include <initializer_list>
#include <string>

#include "jinja/expression_parser.hpp"

namespace sft::jinja {

namespace {

using Kind = Statement::Kind;
using BlockEnds = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_, nesting_) {}

  Syntax run() {
    Syntax syntax;
    syntax.body = parse_body({});
    syntax.has_generation = has_generation_;
    return syntax;
  }

 private:
  static StatementRef make(Kind kind, int line) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = line;
    return statement;
  }

  /// Statements up to a block that begins with one of `ends`, which stays the current token; with no ends, all.
  Body parse_body(BlockEnds ends) {
    const Nesting::Level level(nesting_, tokens_);
    Body body;
    while (!tokens_.is(Token::Kind::end)) {
      const Token& token = tokens_.next();
      if (token.kind == Token::Kind::data) {
        body.push_back(make(Kind::data, token.line));
        body.back()->text = make_text(nullptr, token.text);
      } else if (token.kind == Token::Kind::variable_begin) {
        body.push_back(make(Kind::output, token.line));
        body.back()->expression = expressions_.parse_tuple();
        tokens_.expect(Token::Kind::variable_end, "'}}'");
      } else {
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return tokens_.is_name(end); })) {
          return body;
        }
        parse_statement(body);
        tokens_.expect(Token::Kind::block_end, "'%}'");
      }
    }
    if (ends.size() != 0) tokens_.fail(fmt::format("the template ends before a block with '{}'", *ends.begin()));
    return body;
  }

  /// The body of a block whose opening is read up to its '%}'; also takes the word that ends it.
  Body parse_block(BlockEnds ends, std::string* end = nullptr) {
    tokens_.skip_symbol(":");
    tokens_.expect(Token::Kind::block_end, "'%}'");
    Body body = parse_body(ends);
    std::string word = tokens_.next().text;
    if (end != nullptr) *end = std::move(word);
    return body;
  }

  void parse_statement(Body& body) {
    const int line = tokens_.line();
    const std::string word = tokens_.expect(Token::Kind::name, "the name of a statement").text;
    if (word == "if") return body.push_back(parse_if(line));
    if (word == "for") return body.push_back(parse_for(line));
    if (word == "set") return body.push_back(parse_set(line));
    if (word == "macro") return body.push_back(parse_macro(line));
    if (word == "filter") return body.push_back(parse_filter(line));
    if (word == "generation") return body.push_back(parse_generation(line));
    if (word == "break" || word == "continue") {
      if (num_loops_ == 0)
        throw_at_line(line, fmt::format("'{}' stands outside of a loop", word), "correct the template");
      return body.push_back(make(word == "break" ? Kind::break_loop : Kind::continue_loop, line));
    }
    for (const std::string_view known : {"include", "import", "from", "extends", "block", "autoescape", "call", "with",
                                         "print", "do", "debug", "trans"}) {
      if (word != known) continue;
      throw_at_line(line, fmt::format("the statement '{}' is not supported", word), "write the template without it");
    }
    throw_at_line(line, fmt::format("there is no statement '{}', or its block was not opened", word),
                  "correct the template");
  }

  StatementRef parse_if(int line) {
    const Nesting::Level level(nesting_, tokens_);
    StatementRef statement = make(Kind::condition, line);
    statement->expression = expressions_.parse_tuple(false);
    std::string end;
    statement->body = parse_block({"endif", "elif", "else"}, &end);
    if (end == "elif") statement->otherwise.push_back(parse_if(tokens_.line()));
    if (end == "else") statement->otherwise = parse_block({"endif"});
    return statement;
  }

  StatementRef parse_for(int line) {
    StatementRef statement = make(Kind::loop, line);
    statement->target = expressions_.parse_target(false, "in");
    tokens_.expect_name("in");
    statement->expression = expressions_.parse_tuple(false, "recursive");
    if (tokens_.skip_name("if")) statement->test = expressions_.parse();
    if (tokens_.is_name("recursive")) tokens_.refuse("a recursive loop");
    std::string end;
    ++num_loops_;
    statement->body = parse_block({"endfor", "else"}, &end);
    --num_loops_;
    if (end == "else") tokens_.refuse("the 'else' of a loop");
    require_no_loop_target(*statement->target);
    return statement;
  }

  void require_no_loop_target(const Expression& target) const {
    if (target.name == "loop") throw_at_line(target.line, "a loop cannot assign to 'loop'", "correct the template");
    for (const ExpressionRef& item : target.operands) require_no_loop_target(*item);
  }

  StatementRef parse_set(int line) {
    StatementRef statement = make(Kind::assign, line);
    statement->target = expressions_.parse_target(true);
    if (tokens_.skip_symbol("=")) {
      statement->expression = expressions_.parse_tuple();
      return statement;
    }
    statement->kind = Kind::assign_block;
    if (tokens_.is_symbol("|")) tokens_.refuse("a block that is set through a filter");
    statement->body = parse_block({"endset"});
    return statement;
  }

  void parse_parameters(MacroSyntax& macro) {
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      macro.parameters.push_back(tokens_.expect_identifier());
      if (tokens_.skip_symbol("=")) {
        macro.defaults.push_back(expressions_.parse());
      } else if (!macro.defaults.empty()) {
        tokens_.fail("a parameter without a default follows one with a default");
      }
      if (!tokens_.skip_symbol(",")) break;
    }
    tokens_.expect_symbol(")");
  }

  /// A body that is executed later or elsewhere: no loop around it can be left from inside.
  Body parse_own_block(BlockEnds ends) {
    const int num_loops = std::exchange(num_loops_, 0);
    Body body = parse_block(ends);
    num_loops_ = num_loops;
    return body;
  }

  StatementRef parse_macro(int line) {
    StatementRef statement = make(Kind::macro, line);
    statement->macro = std::make_unique<MacroSyntax>();
    statement->macro->name = tokens_.expect_identifier();
    parse_parameters(*statement->macro);
    statement->macro->body = parse_own_block({"endmacro"});
    return statement;
  }

  StatementRef parse_filter(int line) {
    StatementRef statement = make(Kind::filter, line);
    statement->expression = expressions_.parse_filters();
    statement->body = parse_block({"endfilter"});
    return statement;
  }

  StatementRef parse_generation(int line) {
    StatementRef statement = make(Kind::generation, line);
    statement->body = parse_own_block({"endgeneration"});
    has_generation_ = true;
    return statement;
  }

  TokenStream tokens_;
  Nesting nesting_;
  ExpressionParser expressions_;
  int num_loops_ = 0;
  bool has_generation_ = false;
};

}  // namespace

Syntax parse(std::string_view source) { return Parser(source).run(); }

}  // namespace sft::jinja
