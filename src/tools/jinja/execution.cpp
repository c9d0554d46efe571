// SPDX-License-Identifier: Apache-2.0
// Statements, scopes and macros.

#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "jinja/evaluator.hpp"
#include "jinja/registry.hpp"

namespace sft::jinja {

/// The items of a loop that its condition lets through, tested one by one as the loop asks for them.
class Evaluator::Filtered : public Iterator {
 public:
  Filtered(Evaluator& evaluator, const Statement& statement, std::unique_ptr<Iterator> items)
      : evaluator_(evaluator), statement_(statement), items_(std::move(items)), outer_(evaluator.frame_) {}

  std::optional<Value> next() override {
    while (std::optional<Value> item = items_->next()) {
      const FrameRef frame = evaluator_.enter(statement_.test_scope, outer_);
      evaluator_.assign(*frame, *statement_.target, *item);
      const FrameRef around = std::exchange(evaluator_.frame_, frame);
      const bool is_kept = is_true(evaluator_.evaluate(*statement_.test));
      evaluator_.frame_ = around;
      if (is_kept) return item;
    }
    return std::nullopt;
  }

 private:
  Evaluator& evaluator_;
  const Statement& statement_;
  std::unique_ptr<Iterator> items_;
  FrameRef outer_;
};

Evaluator::~Evaluator() {
  for (const FrameRef& frame : captured_frames_) frame->slots.clear();
  for (const NamespaceRef& space : namespaces_) space->members.clear();
}

void Evaluator::run(const Syntax& syntax, std::map<std::string, Value, std::less<>> variables) {
  variables_ = std::move(variables);
  frame_ = enter(syntax.scope, nullptr);
  (void)execute(syntax.body);
}

FrameRef Evaluator::enter(const Scope& scope, const FrameRef& parent) {
  auto frame = std::make_shared<Frame>(&heap_, parent, scope.loads.size());
  load(*frame, scope);
  return frame;
}

void Evaluator::load(Frame& frame, const Scope& scope) {
  for (std::size_t i = 0; i < scope.loads.size(); ++i) {
    const Load& from = scope.loads[i];
    if (from.kind == Load::Kind::outer) {
      frame.slots[i] = slot(frame, from.outer);
    } else if (from.kind == Load::Kind::context) {
      const auto found = variables_.find(from.name);
      const Value* global = found == variables_.end() ? find_global(from.name) : &found->second;
      frame.slots[i] = global == nullptr ? Value() : *global;
    } else {
      frame.slots[i] = Value();
    }
  }
}

Value& Evaluator::slot(Frame& frame, const VariableSlot& place) {
  Frame* holder = &frame;
  for (std::size_t i = 0; i < place.depth; ++i) holder = holder->parent.get();
  return holder->slots[place.slot];
}

void Evaluator::assign(Frame& frame, const Expression& target, const Value& value) {
  if (target.kind == Expression::Kind::name) {
    slot(frame, target.place) = value;
  } else if (target.kind == Expression::Kind::member) {
    const Value& holder = slot(frame, target.place);
    const auto* space = holder.get<NamespaceRef>();
    if (space == nullptr) throw Failure("cannot assign attribute on non-namespace object");
    if (target.attribute.starts_with('_'))
      throw Failure(fmt::format("a namespace cannot have the attribute '{}'", target.attribute));
    (*space)->set(target.attribute, value);
  } else {
    const std::vector<Value> items = items_of(heap_, value);
    if (items.size() != target.operands.size()) {
      throw Failure(fmt::format("cannot unpack {} values into {} names", items.size(), target.operands.size()));
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(frame, *target.operands[i], items[i]);
  }
}

Evaluator::Flow Evaluator::execute(const Body& body) {
  for (const StatementRef& statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  using Kind = Statement::Kind;
  const Depth depth(*this);
  heap_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case Kind::data:
      output_->append_in_turn(*statement.text.text(), turn_, true);
      break;
    case Kind::output:
      write(evaluate(*statement.expression));
      break;
    case Kind::condition:
      return execute(is_true(evaluate(*statement.expression)) ? statement.body : statement.otherwise);
    case Kind::loop:
      return execute_loop(statement);
    case Kind::assign: {
      const Value value = evaluate(*statement.expression);
      note_message(value);
      assign(*frame_, *statement.target, value);
      break;
    }
    case Kind::macro:
      slot(*frame_, statement.place) = make_macro(*statement.macro);
      break;
    case Kind::assign_block:
    case Kind::filter:
      return execute_captured(statement);
    case Kind::generation:
      return execute_generation(statement);
    case Kind::break_loop:
      return Flow::break_loop;
    case Kind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::next;
}

void Evaluator::write(const Value& value) { output_->append_in_turn(*to_text(*this, value), turn_, true); }

void Evaluator::note_message(const Value& value) {
  const Dict* dict = value.dict();
  if (is_in_index_loop_ && dict != nullptr && dict->message >= 0) turn_ = dict->message;
}

Evaluator::Flow Evaluator::execute_loop(const Statement& statement) {
  const Value iterable = evaluate(*statement.expression);
  std::unique_ptr<Iterator> items = iterate(heap_, iterable);
  if (statement.test) items = std::make_unique<Filtered>(*this, statement, std::move(items));
  const bool has_length = !statement.test && !iterable.get<GeneratorRef>();
  const auto loop = std::make_shared<Loop>(heap_, std::move(items), iterable, has_length);
  const FrameRef outer = frame_;
  const std::int32_t outer_turn = turn_;
  const bool was_in_index_loop = is_in_index_loop_;
  FrameRef frame;
  while (const std::optional<Value> item = loop->advance()) {
    heap_.step();
    if (frame == nullptr || frame.use_count() > 1) {
      frame = enter(statement.scope, outer);
    } else {
      load(*frame, statement.scope);
    }
    line_ = statement.line;
    assign(*frame, *statement.target, *item);
    frame->slots[statement.loop_slot] = loop;
    const Dict* dict = item->dict();
    const bool is_message = dict != nullptr && dict->message >= 0;
    turn_ = is_message ? dict->message : outer_turn;
    is_in_index_loop_ = item->get<std::int64_t>() != nullptr;
    frame_ = frame;
    const Flow flow = execute(statement.body);
    frame_ = outer;
    if (flow == Flow::break_loop) break;
  }
  turn_ = outer_turn;
  is_in_index_loop_ = was_in_index_loop;
  if (frame != nullptr && frame.use_count() == 1) frame->slots.clear();
  return Flow::next;
}

Evaluator::Flow Evaluator::execute_captured(const Statement& statement) {
  const FrameRef outer = frame_;
  frame_ = enter(statement.scope, outer);
  TextBuilder captured(&heap_);
  TextBuilder* const outer_output = std::exchange(output_, &captured);
  const Flow flow = execute(statement.body);
  output_ = outer_output;
  if (flow == Flow::next) {
    const Value text = captured.take();
    if (statement.kind == Statement::Kind::assign_block) {
      assign(*outer, *statement.target, text);
    } else {
      const Value outer_text = std::exchange(block_text_, text);
      write(evaluate(*statement.expression));
      block_text_ = outer_text;
    }
  }
  frame_ = outer;
  return flow;
}

Evaluator::Flow Evaluator::execute_generation(const Statement& statement) {
  const std::size_t begin = output_->size();
  const FrameRef outer = frame_;
  frame_ = enter(statement.scope, outer);
  const Flow flow = execute(statement.body);
  frame_ = outer;
  output_->mark_generation(begin, num_generations_++);
  return flow;
}

Value Evaluator::make_macro(const MacroSyntax& syntax) {
  if (captured_frames_.empty() || captured_frames_.back() != frame_) {
    heap_.hold(sizeof(FrameRef));
    captured_frames_.push_back(frame_);
  }
  return std::make_shared<const Macro>(Macro{&syntax, frame_});
}

Value Evaluator::make_namespace() {
  auto space = std::make_shared<Namespace>(&heap_);
  namespaces_.push_back(space);
  return space;
}

void Evaluator::bind_parameters(const MacroSyntax& syntax, Frame& frame, const Arguments& arguments) {
  const std::size_t num_parameters = syntax.parameters.size();
  if (arguments.positional.size() > num_parameters) {
    throw Failure(fmt::format("macro '{}' takes not more than {} argument(s)", syntax.name, num_parameters));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    frame.slots[syntax.slots[i]] = arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(syntax.parameters.begin(), syntax.parameters.end(), name);
    const std::size_t index = found - syntax.parameters.begin();
    if (index >= num_parameters || index < arguments.positional.size()) {
      throw Failure(fmt::format("macro '{}' takes no keyword argument '{}'", syntax.name, name));
    }
    frame.slots[syntax.slots[index]] = value;
  }
  const std::size_t first_default = num_parameters - syntax.defaults.size();
  for (std::size_t i = 0; i < num_parameters; ++i) {
    if (!frame.slots[syntax.slots[i]].is_missing()) continue;
    frame.slots[syntax.slots[i]] =
        i >= first_default ? evaluate(*syntax.defaults[i - first_default])
                           : make_undefined(fmt::format("parameter '{}' was not provided", syntax.parameters[i]));
  }
}

Value Evaluator::call_macro(const Macro& macro, const Arguments& arguments) {
  const Depth depth(*this);
  const FrameRef caller = frame_;
  const std::int32_t caller_turn = turn_;
  const bool was_in_index_loop = std::exchange(is_in_index_loop_, false);
  for (const Value& argument : arguments.positional) {
    const Dict* dict = argument.dict();
    if (turn_ < 0 && dict != nullptr && dict->message >= 0) turn_ = dict->message;
  }
  frame_ = enter(macro.syntax->scope, macro.frame);
  bind_parameters(*macro.syntax, *frame_, arguments);
  TextBuilder text(&heap_);
  TextBuilder* const outer_output = std::exchange(output_, &text);
  (void)execute(macro.syntax->body);
  output_ = outer_output;
  frame_ = caller;
  turn_ = caller_turn;
  is_in_index_loop_ = was_in_index_loop;
  return text.take();
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  if (const auto* function = callee.get<FunctionRef>()) return (*function)->call(*this, (*function)->self, arguments);
  if (const auto* macro = callee.get<MacroRef>()) return call_macro(**macro, arguments);
  if (callee.is_undefined()) throw Failure(undefined_message(callee));
  throw Failure(fmt::format("'{}' object is not callable", type_name(callee)));
}

}  // namespace sft::jinja
