// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens, read one after the other by the parsers of expressions and statements.

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/failure.hpp"
#include "jinja/lexer.hpp"

namespace sft::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[index_]; }
  [[nodiscard]] const Token& following() const { return tokens_[std::min(index_ + 1, tokens_.size() - 1)]; }
  [[nodiscard]] int line() const { return current().line; }
  const Token& next() {
    const Token& token = tokens_[index_];
    if (index_ + 1 < tokens_.size()) ++index_;
    return token;
  }

  [[nodiscard]] bool is(Token::Kind kind) const { return current().kind == kind; }
  [[nodiscard]] bool is_symbol(std::string_view symbol) const {
    return is(Token::Kind::symbol) && current().text == symbol;
  }
  [[nodiscard]] bool is_name(std::string_view name) const { return is(Token::Kind::name) && current().text == name; }
  bool skip_symbol(std::string_view symbol) { return is_symbol(symbol) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }

  const Token& expect(Token::Kind kind, std::string_view what) {
    if (!is(kind)) fail_expected(what);
    return next();
  }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail_expected(fmt::format("'{}'", symbol));
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected(fmt::format("'{}'", name));
  }
  std::string expect_identifier() { return expect(Token::Kind::name, "a name").text; }

  [[noreturn]] void fail(const std::string& why) const { throw_at_line(line(), why, "correct the template"); }
  /// For what Jinja has and this engine has not.
  [[noreturn]] void refuse(const std::string& what) const {
    throw_at_line(line(), fmt::format("{} is not supported", what), "write the template without it");
  }
  [[noreturn]] void fail_expected(std::string_view what) const {
    fail(fmt::format("it reads {} where {} is expected", describe(current()), what));
  }

 private:
  static std::string describe(const Token& token) {
    switch (token.kind) {
      case Token::Kind::variable_end:
        return "the end of an expression";
      case Token::Kind::block_end:
        return "the end of a block";
      case Token::Kind::end:
        return "the end of the template";
      default:
        return fmt::format("'{}'", token.text);
    }
  }

  std::vector<Token> tokens_;
  std::size_t index_ = 0;
};

/// Levels of syntax around the current one. Bounds recursion, here and when the tree is walked and destroyed.
class Nesting {
 public:
  class Level {
   public:
    Level(Nesting& nesting, const TokenStream& tokens) : nesting_(nesting) {
      if (++nesting_.depth_ > max_depth) {
        --nesting_.depth_;
        tokens.fail(fmt::format("its syntax is nested more than {} deep", max_depth));
      }
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --nesting_.depth_; }

   private:
    Nesting& nesting_;
  };

  static constexpr int max_depth = 200;

 private:
  int depth_ = 0;
};

}  // namespace sft::jinja
