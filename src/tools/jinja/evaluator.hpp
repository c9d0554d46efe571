// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rendering: walks the syntax tree.

#include <fmt/core.h>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/heap.hpp"
#include "jinja/loop.hpp"
#include "jinja/syntax.hpp"
#include "jinja/value.hpp"

namespace sft::jinja {

class Evaluator {
 public:
  explicit Evaluator(const RenderOptions& options)
      : heap_(options.limits), now_(options.now), has_values_only_(options.has_values_only), output_(&text_) {}
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  ~Evaluator();

  /// Renders with these variables. Throws Failure; line() then says where.
  void run(const Syntax& syntax, std::map<std::string, Value, std::less<>> variables);
  [[nodiscard]] const TextBuilder& text() const { return text_; }
  [[nodiscard]] int line() const { return line_; }

  // What filters, tests and methods need.
  [[nodiscard]] Heap& heap() { return heap_; }
  [[nodiscard]] std::chrono::system_clock::time_point now() const { return now_; }
  [[nodiscard]] bool has_values_only() const { return has_values_only_; }
  [[nodiscard]] std::int32_t turn() const { return turn_; }
  /// Jinja's `object.name` and `object[key]`: attributes before items, and items before attributes.
  [[nodiscard]] Value get_attribute(const Value& object, const std::string& name);
  [[nodiscard]] Value get_item(const Value& object, const Value& key);
  [[nodiscard]] Value call(const Value& callee, const Arguments& arguments);
  [[nodiscard]] Value make_list(List::Kind kind, std::vector<Value> items, std::int32_t source = -1);
  [[nodiscard]] Value make_namespace();

 private:
  enum class Flow : std::uint8_t { next, break_loop, continue_loop };

  /// One level of evaluation, as long as it lives. Bounds the recursion of a rendering.
  class Depth {
   public:
    explicit Depth(Evaluator& evaluator) : evaluator_(evaluator) {
      if (evaluator_.depth_ >= evaluator_.heap_.max_depth()) {
        throw Failure(fmt::format("it is evaluated more than {} levels deep", evaluator_.heap_.max_depth()));
      }
      ++evaluator_.depth_;
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --evaluator_.depth_; }

   private:
    Evaluator& evaluator_;
  };
  class Filtered;

  // execution.cpp
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_loop(const Statement& statement);
  Flow execute_captured(const Statement& statement);
  Flow execute_generation(const Statement& statement);
  void write(const Value& value);
  FrameRef enter(const Scope& scope, const FrameRef& parent);
  void load(Frame& frame, const Scope& scope);
  [[nodiscard]] static Value& slot(Frame& frame, const VariableSlot& place);
  void assign(Frame& frame, const Expression& target, const Value& value);
  void note_message(const Value& value);
  [[nodiscard]] Value make_macro(const MacroSyntax& syntax);
  [[nodiscard]] Value call_macro(const Macro& macro, const Arguments& arguments);
  void bind_parameters(const MacroSyntax& syntax, Frame& frame, const Arguments& arguments);

  // evaluation.cpp
  [[nodiscard]] Value evaluate(const Expression& expression);
  [[nodiscard]] Value evaluate_name(const Expression& expression);
  [[nodiscard]] Value evaluate_dict(const Expression& expression);
  [[nodiscard]] Value evaluate_slice(const Expression& expression);
  [[nodiscard]] Value evaluate_call(const Expression& expression);
  [[nodiscard]] Value evaluate_filter(const Expression& expression);
  [[nodiscard]] Value evaluate_comparison(const Expression& expression);
  [[nodiscard]] Value evaluate_concat(const Expression& expression);
  [[nodiscard]] Value evaluate_conditional(const Expression& expression);
  [[nodiscard]] std::vector<Value> evaluate_all(const std::vector<ExpressionRef>& expressions, std::size_t first);
  [[nodiscard]] Arguments evaluate_arguments(const Expression& expression);
  [[nodiscard]] bool compare(Operator which, const Value& left, const Value& right);

  Heap heap_;
  const std::chrono::system_clock::time_point now_;
  const bool has_values_only_;
  std::map<std::string, Value, std::less<>> variables_;
  TextBuilder text_{&heap_};
  TextBuilder* output_;  ///< where text is written: text_, or what a block captures
  FrameRef frame_;
  Value block_text_;               ///< what the first filter of a block works on
  std::int32_t turn_ = -1;         ///< message whose iteration is executed
  bool is_in_index_loop_ = false;  ///< the innermost loop goes through integers, by which messages may be taken
  std::int32_t num_generations_ = 0;
  std::size_t depth_ = 0;
  int line_ = 0;
  std::vector<FrameRef> captured_frames_;  ///< that macros remember: they may refer to themselves
  std::vector<NamespaceRef> namespaces_;
};

}  // namespace sft::jinja
