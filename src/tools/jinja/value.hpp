// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values of a template: Python's, as far as templates meet them.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/text.hpp"

namespace sft::jinja {

class Evaluator;
class Value;
struct Arguments;
struct List;
struct Dict;
struct Range;
struct Generator;
struct Namespace;
struct Macro;
class Loop;
struct Function;
struct BigInteger;

/// What a name or attribute gives that is not there. Without a message it is a variable that was never set.
struct Undefined {
  std::shared_ptr<const std::string> message;
};
struct None {};

using ListRef = std::shared_ptr<const List>;
using DictRef = std::shared_ptr<const Dict>;
using RangeRef = std::shared_ptr<const Range>;
using GeneratorRef = std::shared_ptr<Generator>;
using NamespaceRef = std::shared_ptr<Namespace>;
using MacroRef = std::shared_ptr<const Macro>;
using LoopRef = std::shared_ptr<Loop>;
using FunctionRef = std::shared_ptr<const Function>;
using BigIntegerRef = std::shared_ptr<const BigInteger>;

/// Whether T is one of the alternatives of a variant.
template <class T, class Variant>
inline constexpr bool is_one_of = false;
template <class T, class... Alternatives>
inline constexpr bool is_one_of<T, std::variant<Alternatives...>> = (std::is_same_v<T, Alternatives> || ...);

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, TextRef, ListRef, DictRef, RangeRef,
                            GeneratorRef, NamespaceRef, MacroRef, LoopRef, FunctionRef, BigIntegerRef>;

  Value() = default;
  template <class T>
  requires is_one_of<T, Data> Value(T data)
      : data_(std::in_place_type<T>, std::move(data)) {}  // NOLINT: a plain wrapper

  template <class T>
  [[nodiscard]] const T* get() const {
    return std::get_if<T>(&data_);
  }
  [[nodiscard]] const Text* text() const {
    const TextRef* text = get<TextRef>();
    return text == nullptr ? nullptr : text->get();
  }
  [[nodiscard]] const List* list() const {
    const ListRef* list = get<ListRef>();
    return list == nullptr ? nullptr : list->get();
  }
  [[nodiscard]] const Dict* dict() const {
    const DictRef* dict = get<DictRef>();
    return dict == nullptr ? nullptr : dict->get();
  }
  [[nodiscard]] bool is_undefined() const { return data_.index() == 0; }
  [[nodiscard]] bool is_none() const { return data_.index() == 1; }
  /// A variable that was never set: an undefined one without a message.
  [[nodiscard]] bool is_missing() const { return is_undefined() && get<Undefined>()->message == nullptr; }
  [[nodiscard]] const Data& data() const { return data_; }

 private:
  Data data_;
};

/// A list, a tuple, or what a dict's keys(), values() and items() give.
struct List {
  enum class Kind : std::uint8_t { list, tuple, keys, values, items };
  List(Heap* heap, Kind list_kind, std::vector<Value> list_items, std::int32_t list_source = -1);

  std::vector<Value> items;
  Kind kind;
  std::int32_t source;  ///< of a list inside a message, else -1
  std::size_t depth;    ///< levels of containers, this one included
  Charge charge;
  [[nodiscard]] bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
};

/// A dict in the order of insertion.
struct Dict {
  using Entries = std::vector<std::pair<Value, Value>>;
  /// Where keys are equal, the first keeps its place and the last its value.
  Dict(Heap* heap, Entries&& dict_entries, std::int32_t dict_source = -1);

  /// nullptr if there is no such key.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] const Value* find(const Value& key) const;

  Entries entries;
  std::map<std::string, std::size_t, std::less<>> index;  ///< of the text keys
  std::int32_t source;
  std::int32_t message = -1;  ///< index of the message that it is, else -1
  std::size_t depth;
  Charge charge;
};

struct Range {
  std::int64_t start = 0, stop = 0, step = 1;
  [[nodiscard]] std::int64_t size() const;
};

/// What filters such as map and select give: items that can be taken once.
struct Generator {
  Generator(Heap* heap, std::vector<Value> generated);

  std::vector<Value> items;
  std::size_t num_taken = 0;
  std::size_t depth;
  Charge charge;
};

/// What namespace() gives: the one kind of value that a template can change.
struct Namespace {
  explicit Namespace(Heap* heap) : charge(heap, sizeof(Namespace)) {}
  [[nodiscard]] const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);

  std::vector<std::pair<std::string, Value>> members;
  Charge charge;
};

/// What stands in the parentheses of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Method = Value (*)(Evaluator&, const Value& self, const Arguments&);

/// The variables of one scope while it is executed; symbols.cpp says which there are.
struct Frame {
  Frame(Heap* heap, std::shared_ptr<Frame> outer, std::size_t num_slots)
      : parent(std::move(outer)), slots(num_slots), charge(heap, sizeof(Frame) + num_slots * sizeof(Value)) {}

  std::shared_ptr<Frame> parent;
  std::vector<Value> slots;
  Charge charge;
};
using FrameRef = std::shared_ptr<Frame>;

struct MacroSyntax;
struct Macro {
  const MacroSyntax* syntax;
  FrameRef frame;  ///< the scope around it, which it remembers
};

/// A function of the engine, or a method bound to its object.
struct Function {
  std::string name;
  Method call;
  Value self;
};

/// An integer beyond 64 bits: templates print and compare it, and do not reckon with it.
struct BigInteger {
  BigInteger(Heap* heap, std::string written)
      : digits(std::move(written)), charge(heap, sizeof(BigInteger) + digits.size()) {}

  std::string digits;  ///< decimal, the first one not 0, "-" before those of negative numbers
  Charge charge;
};

/// An undefined value that says `message` when it is used.
[[nodiscard]] Value make_undefined(std::string message);
/// The message of an undefined value.
[[nodiscard]] std::string undefined_message(const Value& value);

/// Python's name of the value's type.
[[nodiscard]] std::string type_name(const Value& value);
/// Levels of containers: 0 for what contains no values.
[[nodiscard]] std::size_t depth_of(const Value& value);
/// Python's bool().
[[nodiscard]] bool is_true(const Value& value);
/// Python's ==. `heap` counts the work, here and below.
[[nodiscard]] bool are_equal(Heap& heap, const Value& left, const Value& right);
/// Python's == of keys.
[[nodiscard]] bool are_equal_keys(const Value& left, const Value& right);
/// Python's left < right; fails for types that have no order.
[[nodiscard]] bool is_less(Heap& heap, const Value& left, const Value& right);
/// Python's `needle in haystack`.
[[nodiscard]] bool contains(Heap& heap, const Value& haystack, const Value& needle);
/// Python's len(); fails for what has none.
[[nodiscard]] std::int64_t length_of(const Value& value);
/// The number of an integer or a bool.
[[nodiscard]] std::optional<std::int64_t> as_integer(const Value& value);
/// The number of any number.
[[nodiscard]] std::optional<double> as_number(const Value& value);
/// Fails unless the value can be a key: texts, numbers, bools and none can.
void require_key(const Value& value);
/// The text of a value that has to be one; `what` says what needs it.
[[nodiscard]] const TextRef& require_text(const Value& value, std::string_view what);
/// The number of a value that has to be an integer.
[[nodiscard]] std::int64_t require_integer(const Value& value, std::string_view what);

/// Python's str(); of an undefined value nothing. Fails for an undefined value and none where there are to be values
/// only, and for what prints an address in Python (macros, generators ...).
[[nodiscard]] TextRef to_text(Evaluator& evaluator, const Value& value);
/// Python's repr().
[[nodiscard]] TextRef to_repr(Evaluator& evaluator, const Value& value);
/// The shortest digits that are read back as the same number, with ".0" or an exponent as Python writes them.
[[nodiscard]] std::string float_text(double number);

}  // namespace sft::jinja
