// SPDX-License-Identifier: Apache-2.0
#pragma once
// Going through the items of a value, and the variable `loop`.

#include <memory>
#include <optional>
#include <string_view>

#include "jinja/value.hpp"

namespace sft::jinja {

class Iterator {
 public:
  virtual ~Iterator() = default;
  /// The next item; nothing after the last.
  [[nodiscard]] virtual std::optional<Value> next() = 0;
};

/// The items of a value: of a dict its keys, of a string its characters. Fails for what has no items. One step an item.
[[nodiscard]] std::unique_ptr<Iterator> iterate(Heap& heap, const Value& value);
/// All items of a value.
[[nodiscard]] std::vector<Value> items_of(Heap& heap, const Value& value);

struct Statement;
struct Frame;

/// What `loop(items)` does in a recursive loop: the statement again, in the scope around it.
struct Recursion {
  const Statement* statement = nullptr;  ///< nullptr: the loop is not recursive
  std::shared_ptr<Frame> frame;
};

/// The state of a `for` loop: Jinja's LoopContext.
class Loop {
 public:
  /// Goes through `items`, which come from `iterable`. `has_length`: whether their number is that of `iterable`, else
  /// all are read ahead when it is asked for. `depth0`: how deep in a recursive loop it is.
  Loop(Heap& heap, std::unique_ptr<Iterator> items, Value iterable, bool has_length, std::int64_t depth0);

  /// Moves to the next item, which it returns.
  [[nodiscard]] std::optional<Value> advance();
  /// `loop.NAME`; nothing if there is no such attribute.
  [[nodiscard]] std::optional<Value> attribute(const LoopRef& self, std::string_view name);
  [[nodiscard]] std::int64_t length();
  [[nodiscard]] Value cycle(const Arguments& arguments) const;
  [[nodiscard]] bool changed(const Arguments& arguments);
  [[nodiscard]] std::int64_t depth() const { return depth0_ + 1; }
  Recursion recursion;
  [[nodiscard]] std::size_t depth_of_items() const { return depth_of(iterable_) + 1; }

 private:
  bool peek();

  Heap& heap_;
  std::unique_ptr<Iterator> items_;
  const Value iterable_;
  const bool has_length_;
  const std::int64_t depth0_;
  std::int64_t index0_ = -1;
  std::optional<std::int64_t> length_;
  std::optional<Value> before_, current_, after_;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace sft::jinja
