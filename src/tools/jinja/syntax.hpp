// SPDX-License-Identifier: Apache-2.0
#pragma once
// The syntax tree of a template.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.hpp"

namespace sft::jinja {

struct Expression;
struct Statement;
using ExpressionRef = std::unique_ptr<Expression>;
using StatementRef = std::unique_ptr<Statement>;
using Body = std::vector<StatementRef>;

/// Where a variable lies: `depth` scopes outward, there in `slot`.
struct VariableSlot {
  std::size_t depth = 0;
  std::size_t slot = 0;
};

/// How a variable gets its value when a scope is entered.
struct Load {
  enum class Kind : std::uint8_t { parameter, undefined, context, outer };
  Kind kind = Kind::undefined;
  std::string name;    ///< of the variable
  VariableSlot outer;  ///< for Kind::outer: as seen from this scope
};

/// The variables of a scope, by slot.
struct Scope {
  std::vector<Load> loads;
};

using FilterFunction = Value (*)(Evaluator&, const Value& input, const Arguments&);
using TestFunction = bool (*)(Evaluator&, const Value& input, const Arguments&);

enum class Operator : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,  // binary
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,  // comparisons
  negative,
  positive,
  invert,  // unary; `invert` is `not`
};

struct Expression {
  enum class Kind : std::uint8_t {
    constant,     // value
    name,         // name, place
    member,       // an attribute that is assigned to: name (of the namespace), place, attribute
    list,         // operands
    tuple,        // operands
    dict,         // operands: key, value, key, value ...
    attribute,    // operands[0].attribute
    item,         // operands[0][operands[1]]
    slice,        // operands[0][operands[1]:operands[2]:operands[3]], each of these three may be missing
    call,         // operands[0](operands[1] ..., named, star)
    filter,       // operands[0]|name(operands[1] ...); operands[0] is missing where it filters a block
    test,         // operands[0] is name(operands[1] ...)
    unary,        // operators[0] operands[0]
    binary,       // operands[0] operators[0] operands[1]
    comparison,   // operands[0] operators[0] operands[1] operators[1] ...
    concat,       // operands
    both,         // operands[0] and operands[1]
    either,       // operands[0] or operands[1]
    conditional,  // operands[0] if operands[1] else operands[2], which may be missing
  };

  Kind kind = Kind::constant;
  int line = 0;
  std::size_t height = 1;  ///< levels of operands below, where they nest to the left
  Value value;
  std::string name;
  std::string attribute;
  VariableSlot place;
  std::vector<ExpressionRef> operands;
  std::vector<std::pair<std::string, ExpressionRef>> named;
  ExpressionRef star;
  std::vector<Operator> operators;
  FilterFunction filter = nullptr;  ///< nullptr: there is none of that name, which fails when it is used
  TestFunction test = nullptr;
};

struct MacroSyntax {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionRef> defaults;  ///< of the last parameters
  Body body;
  Scope scope;
  std::vector<std::size_t> slots;  ///< of the parameters
};

struct Statement {
  enum class Kind : std::uint8_t {
    data,          // text
    output,        // expression
    condition,     // if expression: body; elif, else: otherwise
    loop,          // for target in expression if test: body
    assign,        // set target = expression
    assign_block,  // set target: body
    macro,         // macro
    filter,        // filter expression: body
    generation,    // body
    break_loop,
    continue_loop,
  };

  Kind kind = Kind::data;
  int line = 0;
  Value text;
  ExpressionRef expression, target, test;
  Body body, otherwise;
  std::unique_ptr<MacroSyntax> macro;
  Scope scope, test_scope;    ///< of a loop: both have the target in the same slots
  std::size_t loop_slot = 0;  ///< of `loop` in `scope`
  VariableSlot place;         ///< of the name of a macro
};

/// A whole template.
struct Syntax {
  std::string source;
  Body body;
  Scope scope;
  bool has_generation = false;
};

/// The syntax tree of a template, its names not yet bound to places. Throws a TemplateError that names the line.
[[nodiscard]] Syntax parse(std::string_view source);

/// Binds every name of `syntax` to a place and fills the scopes, by Jinja's rules: loops, macros and blocks with an end
/// of their own have a scope, conditions have none; a scope sees the variables of those around it and assigns to its
/// own; what no scope assigns is looked up in the context. Refuses, by line, filters and tests that do not exist,
/// unless a condition may keep them from being used. Throws a TemplateError, or a Failure of no line.
void bind_names(Syntax& syntax);

}  // namespace sft::jinja
