// SPDX-License-Identifier: Apache-2.0
// Which variable a name means.

#include <fmt/core.h>
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "jinja/failure.hpp"
#include "jinja/syntax.hpp"

namespace sft::jinja {

namespace {

/// The names of one scope. Branches of a condition are examined with copies, which branch_update joins.
class Symbols {
 public:
  Symbols(const Symbols* parent, std::size_t& work) : parent_(parent), work_(&work) {}

  /// Sets `place` to where the scopes from this one on have `name`, if they do.
  [[nodiscard]] bool find(const std::string& name, VariableSlot& place) const {
    std::size_t depth = 0;
    for (const Symbols* symbols = this; symbols != nullptr; symbols = symbols->parent_, ++depth) {
      const auto found = symbols->slots_.find(name);
      if (found == symbols->slots_.end()) continue;
      place = {depth, found->second};
      return true;
    }
    return false;
  }

  std::size_t declare_parameter(const std::string& name) {
    stores_.insert(name);
    return define(name, Load::Kind::parameter);
  }
  void load(const std::string& name) {
    VariableSlot place;
    if (!find(name, place)) define(name, Load::Kind::context);
  }
  void store(const std::string& name) {
    stores_.insert(name);
    if (!slots_.contains(name)) define_from_outside(name, Load::Kind::undefined);
  }

  /// Takes over what the branches of a condition, copies of this, have found. What only some of them assign may keep
  /// its value from outside.
  void join(const std::vector<Symbols>& branches) {
    std::set<std::string> stores;
    for (const Symbols& branch : branches) stores.insert(branch.stores_.begin(), branch.stores_.end());
    for (const std::string& name : stores_) stores.erase(name);
    for (const Symbols& branch : branches) {
      for (const auto& [name, slot] : branch.slots_) {
        const Load& load = branch.loads_[slot];
        loads_[define(name, load.kind)] = load;
      }
      stores_.insert(branch.stores_.begin(), branch.stores_.end());
    }
    for (const std::string& name : stores) define_from_outside(name, Load::Kind::context);
  }

  /// A scope inside this one.
  [[nodiscard]] Symbols inner() const { return {this, *work_}; }
  /// Copies for the two branches of a condition.
  [[nodiscard]] std::vector<Symbols> branches() const {
    *work_ += loads_.size();
    if (*work_ > max_work) throw Failure("it has too many names and conditions", "write a shorter template");
    return {*this, *this};
  }
  [[nodiscard]] Scope scope() const { return {loads_}; }

 private:
  std::size_t define(const std::string& name, Load::Kind kind) {
    const auto [found, is_new] = slots_.try_emplace(name, loads_.size());
    if (is_new) loads_.emplace_back();
    loads_[found->second] = {kind, name, {}};
    return found->second;
  }
  void define_from_outside(const std::string& name, Load::Kind otherwise) {
    VariableSlot outer;
    const bool is_outside = parent_ != nullptr && parent_->find(name, outer);
    const std::size_t slot = define(name, is_outside ? Load::Kind::outer : otherwise);
    if (is_outside) loads_[slot].outer = {outer.depth + 1, outer.slot};
  }

  /// Names copied for all conditions together; templates that are written by people need thousands.
  static constexpr std::size_t max_work = 5'000'000;

  const Symbols* parent_;
  std::size_t* work_;
  std::map<std::string, std::size_t> slots_;
  std::vector<Load> loads_;
  std::set<std::string> stores_;
};

/// Collects the names of one scope; what lies in scopes of its own is left out.
class Collector {
 public:
  explicit Collector(Symbols& symbols) : symbols_(&symbols) {}

  void visit_loads(const Expression* expression) {
    if (expression == nullptr) return;
    if (expression->kind == Expression::Kind::name || expression->kind == Expression::Kind::member) {
      symbols_->load(expression->name);
    }
    for (const ExpressionRef& operand : expression->operands) visit_loads(operand.get());
    for (const auto& [name, argument] : expression->named) visit_loads(argument.get());
    visit_loads(expression->star.get());
  }

  void visit_target(const Expression& target, bool is_parameter) {
    if (target.kind == Expression::Kind::member) return symbols_->load(target.name);
    if (target.kind == Expression::Kind::name) {
      is_parameter ? (void)symbols_->declare_parameter(target.name) : symbols_->store(target.name);
    }
    for (const ExpressionRef& item : target.operands) visit_target(*item, is_parameter);
  }

  void visit(const Body& body) {
    for (const StatementRef& statement : body) visit(*statement);
  }

 private:
  void visit(const Statement& statement) {
    using Kind = Statement::Kind;
    switch (statement.kind) {
      case Kind::condition:
        return visit_condition(statement);
      case Kind::assign:
        visit_loads(statement.expression.get());
        return visit_target(*statement.target, false);
      case Kind::assign_block:
        return visit_target(*statement.target, false);
      case Kind::macro:
        return symbols_->store(statement.macro->name);
      default:
        return visit_loads(statement.expression.get());
    }
  }

  void visit_condition(const Statement& statement) {
    visit_loads(statement.expression.get());
    Symbols* const whole = symbols_;
    std::vector<Symbols> branches = whole->branches();
    symbols_ = &branches[0];
    visit(statement.body);
    symbols_ = &branches[1];
    visit(statement.otherwise);
    symbols_ = whole;
    whole->join(branches);
  }

  Symbols* symbols_;
};

/// Writes places into the names of one scope, and handles the scopes inside.
class Binder {
 public:
  explicit Binder(const Symbols& symbols) : symbols_(symbols) {}

  void bind(Body& body) {
    for (const StatementRef& statement : body) bind(*statement);
  }

  void bind(Expression* expression) {
    if (expression == nullptr) return;
    using Kind = Expression::Kind;
    if (expression->kind == Kind::name || expression->kind == Kind::member) {
      expression->place = slot_of(expression->name);
    }
    require_known(*expression);
    const bool was_optional = is_optional_;
    is_optional_ |= expression->kind == Kind::conditional;
    for (const ExpressionRef& operand : expression->operands) bind(operand.get());
    for (const auto& [name, argument] : expression->named) bind(argument.get());
    bind(expression->star.get());
    is_optional_ = was_optional;
  }

 private:
  [[nodiscard]] VariableSlot slot_of(const std::string& name) const {
    VariableSlot place;
    if (!symbols_.find(name, place)) throw std::logic_error("internal error: a template's name was not collected");
    return place;
  }

  void require_known(const Expression& expression) const {
    using Kind = Expression::Kind;
    const bool is_missing = (expression.kind == Kind::filter && expression.filter == nullptr) ||
                            (expression.kind == Kind::test && expression.test == nullptr);
    if (!is_missing || is_optional_) return;
    const std::string what = expression.kind == Kind::filter ? "filter" : "test";
    throw_at_line(expression.line, fmt::format("the {} '{}' is not known or not supported", what, expression.name),
                  "write the template without it");
  }

  void bind(Statement& statement) {
    using Kind = Statement::Kind;
    switch (statement.kind) {
      case Kind::condition:
        return bind_condition(statement);
      case Kind::loop:
        return bind_loop(statement);
      case Kind::assign:
        bind(statement.expression.get());
        return bind(statement.target.get());
      case Kind::macro:
        statement.place = slot_of(statement.macro->name);
        return bind_macro(statement);
      case Kind::assign_block:
        bind(statement.target.get());
        return bind_inner(statement);
      case Kind::filter:
      case Kind::generation:
        return bind_inner(statement);
      default:
        return bind(statement.expression.get());
    }
  }

  void bind_condition(Statement& statement) {
    const bool was_optional = is_optional_;
    is_optional_ = true;
    bind(statement.expression.get());
    bind(statement.body);
    bind(statement.otherwise);
    is_optional_ = was_optional;
  }

  /// A body with a scope of its own, and the filter that stands at its beginning.
  void bind_inner(Statement& statement) {
    Symbols inner = symbols_.inner();
    Collector collector(inner);
    collector.visit(statement.body);
    collector.visit_loads(statement.expression.get());
    Binder binder(inner);
    binder.bind(statement.body);
    binder.bind(statement.expression.get());
    statement.scope = inner.scope();
  }

  void bind_loop(Statement& statement) {
    bind(statement.expression.get());
    Symbols inner = symbols_.inner();
    statement.loop_slot = inner.declare_parameter("loop");
    Collector collector(inner);
    collector.visit_target(*statement.target, true);
    collector.visit(statement.body);
    Binder binder(inner);
    binder.bind(statement.target.get());
    binder.bind(statement.body);
    statement.scope = inner.scope();

    if (!statement.test) return;
    Symbols test = symbols_.inner();
    (void)test.declare_parameter("");  // in the slot of `loop`, which a test cannot see
    Collector test_collector(test);
    test_collector.visit_target(*statement.target, true);
    test_collector.visit_loads(statement.test.get());
    Binder(test).bind(statement.test.get());
    statement.test_scope = test.scope();
  }

  void bind_macro(Statement& statement) {
    MacroSyntax& macro = *statement.macro;
    Symbols inner = symbols_.inner();
    for (const std::string& parameter : macro.parameters) macro.slots.push_back(inner.declare_parameter(parameter));
    // Jinja gives these to every macro that names them.
    for (const std::string name : {"caller", "kwargs", "varargs"}) {
      const bool is_parameter =
          std::find(macro.parameters.begin(), macro.parameters.end(), name) != macro.parameters.end();
      if (is_parameter || !mentions(macro.body, name)) continue;
      throw_at_line(statement.line, fmt::format("'{}' in the macro '{}' is not supported", name, macro.name),
                    "write the template without it");
    }
    Collector collector(inner);
    for (const ExpressionRef& value : macro.defaults) collector.visit_loads(value.get());
    collector.visit(macro.body);
    Binder binder(inner);
    for (const ExpressionRef& value : macro.defaults) binder.bind(value.get());
    binder.bind(macro.body);
    macro.scope = inner.scope();
  }

  static bool mentions(const Expression* expression, std::string_view name) {
    if (expression == nullptr) return false;
    if (expression->kind == Expression::Kind::name && expression->name == name) return true;
    const auto is_hit = [&](const ExpressionRef& part) { return mentions(part.get(), name); };
    return std::any_of(expression->operands.begin(), expression->operands.end(), is_hit) ||
           std::any_of(expression->named.begin(), expression->named.end(),
                       [&](const auto& e) { return is_hit(e.second); }) ||
           is_hit(expression->star);
  }

  static bool mentions(const Body& body, std::string_view name) {
    return std::any_of(body.begin(), body.end(), [&](const StatementRef& statement) {
      const auto is_hit = [&](const ExpressionRef& part) { return mentions(part.get(), name); };
      const bool in_macro = statement->macro &&
                            (mentions(statement->macro->body, name) ||
                             std::any_of(statement->macro->defaults.begin(), statement->macro->defaults.end(), is_hit));
      return in_macro || is_hit(statement->expression) || is_hit(statement->test) || mentions(statement->body, name) ||
             mentions(statement->otherwise, name);
    });
  }

  const Symbols& symbols_;
  bool is_optional_ = false;  ///< a condition around may keep this from being executed
};

}  // namespace

void bind_names(Syntax& syntax) {
  std::size_t work = 0;
  Symbols symbols(nullptr, work);
  Collector(symbols).visit(syntax.body);
  Binder(symbols).bind(syntax.body);
  syntax.scope = symbols.scope();
}

}  // namespace sft::jinja
