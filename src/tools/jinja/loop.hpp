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

/// The state of a `for` loop: Jinja's LoopContext.
class Loop {
 public:
  /// Goes through `items`, which come from `iterable`. `has_length`: whether their number is that of `iterable`, else
  /// all are read ahead when it is asked for.
  Loop(Heap& heap, std::unique_ptr<Iterator> items, Value iterable, bool has_length);

  /// Moves to the next item, which it returns.
  [[nodiscard]] std::optional<Value> advance();
  /// `loop.NAME`; nothing if there is no such attribute.
  [[nodiscard]] std::optional<Value> attribute(std::string_view name);
  [[nodiscard]] std::int64_t length();
  [[nodiscard]] std::size_t depth_of_items() const { return depth_of(iterable_) + 1; }

 private:
  bool peek();

  Heap& heap_;
  std::unique_ptr<Iterator> items_;
  const Value iterable_;
  const bool has_length_;
  std::int64_t index0_ = -1;
  std::optional<std::int64_t> length_;
  std::optional<Value> before_, current_, after_;
};

}  // namespace sft::jinja
