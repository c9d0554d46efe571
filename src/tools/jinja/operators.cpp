// SPDX-License-Identifier: Apache-2.0
#include "jinja/operators.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "jinja/evaluator.hpp"
#include "jinja/unicode.hpp"

namespace sft::jinja {

namespace {

std::string_view symbol_of(Operator which) {
  switch (which) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    default:
      return "%";
  }
}

[[noreturn]] void fail_operands(Operator which, const Value& left, const Value& right) {
  if (which == Operator::add && left.text() != nullptr) {
    throw Failure(fmt::format("can only concatenate str (not \"{}\") to str", type_name(right)));
  }
  throw Failure(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol_of(which), type_name(left),
                            type_name(right)));
}

std::int64_t require_fit(bool overflows, std::int64_t result) {
  if (overflows) fail_unsupported("an integer beyond 64 bits");
  return result;
}

std::int64_t floor_divide(std::int64_t left, std::int64_t right) {
  if (right == 0) throw Failure("integer division or modulo by zero");
  if (right == -1) {
    std::int64_t result = 0;
    const bool overflows = __builtin_sub_overflow(std::int64_t{0}, left, &result);
    return require_fit(overflows, result);
  }
  return left / right - (left % right != 0 && (left < 0) != (right < 0) ? 1 : 0);
}

Value integer_arithmetic(Operator which, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (which) {
    case Operator::add: {
      const bool overflows = __builtin_add_overflow(left, right, &result);
      return require_fit(overflows, result);
    }
    case Operator::subtract: {
      const bool overflows = __builtin_sub_overflow(left, right, &result);
      return require_fit(overflows, result);
    }
    case Operator::multiply: {
      const bool overflows = __builtin_mul_overflow(left, right, &result);
      return require_fit(overflows, result);
    }
    case Operator::divide:
      if (right == 0) throw Failure("division by zero");
      return static_cast<double>(left) / static_cast<double>(right);
    case Operator::floor_divide:
      return floor_divide(left, right);
    default:
      if (right == -1) return std::int64_t{0};
      return left - floor_divide(left, right) * right;
  }
}

double floating_modulo(double left, double right) {
  double rest = std::fmod(left, right);
  if (rest != 0 && (rest < 0) != (right < 0)) rest += right;
  return rest == 0 ? std::copysign(0.0, right) : rest;
}

Value floating_arithmetic(Operator which, double left, double right) {
  const bool divides = which == Operator::divide || which == Operator::floor_divide || which == Operator::modulo;
  if (divides && right == 0)
    throw Failure(which == Operator::divide ? "float division by zero" : "float modulo by zero");
  switch (which) {
    case Operator::add:
      return left + right;
    case Operator::subtract:
      return left - right;
    case Operator::multiply:
      return left * right;
    case Operator::divide:
      return left / right;
    case Operator::floor_divide: {
      const double quotient = (left - floating_modulo(left, right)) / right;
      const double floor = std::floor(quotient);
      return quotient - floor > 0.5 ? floor + 1 : floor;
    }
    default:
      return floating_modulo(left, right);
  }
}

/// The bytes of `count` repetitions, checked against the heap.
std::size_t repetitions(Heap& heap, std::size_t size, std::int64_t count) {
  if (count <= 0 || size == 0) return 0;
  const std::size_t times = count;
  std::size_t total = 0;
  heap.require(__builtin_mul_overflow(size, times, &total) ? ~std::size_t{0} : total);
  return times;
}

Value repeat(Evaluator& evaluator, const Value& sequence, std::int64_t count) {
  Heap& heap = evaluator.heap();
  if (const auto* text = sequence.get<TextRef>()) {
    TextBuilder builder(&heap);
    for (std::size_t i = repetitions(heap, (*text)->bytes.size(), count); i > 0; --i) builder.append(**text);
    return builder.take((*text)->is_markup);
  }
  const List& list = *sequence.list();
  std::vector<Value> items;
  for (std::size_t i = repetitions(heap, list.items.size() * sizeof(Value), count); i > 0; --i) {
    heap.step(list.items.size());
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return evaluator.make_list(list.kind, std::move(items), list.source);
}

Value concatenate(Evaluator& evaluator, const TextRef& left, const TextRef& right) {
  Heap& heap = evaluator.heap();
  const bool is_markup = left->is_markup || right->is_markup;
  TextBuilder builder(&heap);
  builder.append_in_turn(is_markup ? *escape_html(heap, left) : *left, evaluator.turn(), false);
  builder.append_in_turn(is_markup ? *escape_html(heap, right) : *right, evaluator.turn(), false);
  return builder.take(is_markup);
}

Value concatenate(Evaluator& evaluator, const List& left, const List& right) {
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return evaluator.make_list(left.kind, std::move(items));
}

/// Bounds of a slice as Python adjusts them to a length.
struct Bounds {
  std::int64_t start = 0, count = 0, step = 1;
};

Bounds adjust(std::int64_t length, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
              std::optional<std::int64_t> step) {
  Bounds bounds;
  bounds.step = step.value_or(1);
  if (bounds.step == 0) throw Failure("slice step cannot be zero");
  const bool is_back = bounds.step < 0;
  const auto clamp = [&](std::int64_t index) {
    if (index < 0) index = index < -length ? -1 : index + length;
    return std::clamp<std::int64_t>(index, is_back ? -1 : 0, is_back ? length - 1 : length);
  };
  bounds.start = start ? clamp(*start) : (is_back ? length - 1 : 0);
  const std::int64_t end = stop ? clamp(*stop) : (is_back ? -1 : length);
  if (!is_back && bounds.start < end) bounds.count = (end - bounds.start - 1) / bounds.step + 1;
  if (is_back && end < bounds.start) {
    const std::int64_t stride = bounds.step == INT64_MIN ? INT64_MAX : -bounds.step;
    bounds.count = (bounds.start - end - 1) / stride + 1;
  }
  return bounds;
}

Value slice_text(Heap& heap, const TextRef& text, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                 std::optional<std::int64_t> step) {
  const std::string& bytes = text->bytes;
  heap.step(1 + bytes.size() / 16);
  const Bounds bounds = adjust(count_characters(bytes), start, stop, step);
  if (bounds.count == 0) return make_text(&heap, "", {}, text->is_markup);
  if (bounds.step == 1) {
    const std::size_t begin = position_of_character(bytes, bounds.start);
    const std::size_t end = begin + position_of_character(std::string_view(bytes).substr(begin), bounds.count);
    return cut_text(&heap, text, begin, end);
  }
  heap.require(bytes.size() * sizeof(std::size_t));
  std::vector<std::size_t> positions;
  for (std::size_t position = 0; position < bytes.size(); (void)next_code_point(bytes, position)) {
    positions.push_back(position);
  }
  positions.push_back(bytes.size());
  TextBuilder builder(&heap);
  for (std::int64_t i = 0; i < bounds.count; ++i) {
    const std::size_t index = bounds.start + i * bounds.step;
    builder.append(*text, positions[index], positions[index + 1]);
  }
  return builder.take(text->is_markup);
}

/// Fails for an integer that cannot be reckoned with.
void require_small(const Value& value) {
  if (value.get<BigIntegerRef>() != nullptr) fail_unsupported("reckoning with an integer beyond 64 bits");
}

}  // namespace

Value apply_unary(Operator which, const Value& value) {
  if (which == Operator::invert) return !is_true(value);
  require_small(value);
  if (value.is_undefined()) throw Failure(undefined_message(value));
  if (const auto* number = value.get<double>()) return which == Operator::negative ? -*number : *number;
  const auto number = as_integer(value);
  if (!number)
    throw Failure(
        fmt::format("bad operand type for unary {}: '{}'", which == Operator::negative ? "-" : "+", type_name(value)));
  return which == Operator::negative ? integer_arithmetic(Operator::subtract, 0, *number) : Value(*number);
}

Value apply_binary(Evaluator& evaluator, Operator which, const Value& left, const Value& right) {
  if (which == Operator::modulo && left.text() != nullptr) fail_unsupported("the operator % of a string");
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) throw Failure(undefined_message(*side));
    require_small(*side);
  }
  const auto a = as_integer(left), b = as_integer(right);
  if (a && b) return integer_arithmetic(which, *a, *b);
  const auto x = as_number(left), y = as_number(right);
  if (x && y) return floating_arithmetic(which, *x, *y);
  const auto* left_text = left.get<TextRef>();
  const auto* right_text = right.get<TextRef>();
  if (which == Operator::add && left_text != nullptr && right_text != nullptr) {
    return concatenate(evaluator, *left_text, *right_text);
  }
  const List* left_list = left.list();
  const List* right_list = right.list();
  const bool are_lists = left_list != nullptr && right_list != nullptr && left_list->is_sequence();
  if (which == Operator::add && are_lists && left_list->kind == right_list->kind) {
    return concatenate(evaluator, *left_list, *right_list);
  }
  if (which == Operator::multiply) {
    const auto is_sequence = [](const Value& value) {
      return value.text() != nullptr || (value.list() != nullptr && value.list()->is_sequence());
    };
    if (is_sequence(left) && b) return repeat(evaluator, left, *b);
    if (is_sequence(right) && a) return repeat(evaluator, right, *a);
  }
  fail_operands(which, left, right);
}

bool is_at_most(Heap& heap, const Value& left, const Value& right) {
  const bool is_before = is_less(heap, left, right);
  return is_before || are_equal(heap, left, right);
}

Value slice(Evaluator& evaluator, const Value& object, std::optional<std::int64_t> start,
            std::optional<std::int64_t> stop, std::optional<std::int64_t> step) {
  if (object.is_undefined()) throw Failure(undefined_message(object));
  if (const auto* text = object.get<TextRef>()) return slice_text(evaluator.heap(), *text, start, stop, step);
  if (const List* list = object.list(); list != nullptr && list->is_sequence()) {
    const Bounds bounds = adjust(static_cast<std::int64_t>(list->items.size()), start, stop, step);
    std::vector<Value> items;
    for (std::int64_t i = 0; i < bounds.count; ++i) {
      items.push_back(list->items[bounds.start + i * bounds.step]);
    }
    return evaluator.make_list(list->kind, std::move(items), list->source);
  }
  if (const auto* range = object.get<RangeRef>()) {
    const Bounds bounds = adjust((*range)->size(), start, stop, step);
    const std::int64_t first = (*range)->start + bounds.start * (*range)->step;
    const std::int64_t stride = (*range)->step * (bounds.count > 1 ? bounds.step : 1);
    return std::make_shared<const Range>(Range{first, first + bounds.count * stride, stride});
  }
  throw Failure(fmt::format("'{}' object is not subscriptable", type_name(object)));
}

std::optional<Value> item_at(Evaluator& evaluator, const Value& object, std::int64_t index) {
  const List* list = object.list();
  const auto* text = object.get<TextRef>();
  const auto* range = object.get<RangeRef>();
  const bool is_sequence = text != nullptr || range != nullptr || (list != nullptr && list->is_sequence());
  if (!is_sequence) return std::nullopt;
  const std::int64_t length = length_of(object);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  if (list != nullptr) return list->items[index];
  if (range != nullptr) return (*range)->start + index * (*range)->step;
  const std::string& bytes = (*text)->bytes;
  evaluator.heap().step(1 + bytes.size() / 16);
  const std::size_t begin = position_of_character(bytes, index);
  std::size_t end = begin;
  (void)next_code_point(bytes, end);
  return cut_text(&evaluator.heap(), *text, begin, end);
}

TextRef escape_html(Heap& heap, const TextRef& text) {
  if (text->is_markup) return text;
  static constexpr std::pair<char, std::string_view> entities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  TextBuilder builder(&heap);
  std::size_t done = 0;
  for (std::size_t i = 0; i < text->bytes.size(); ++i) {
    const auto entity = std::find_if(std::begin(entities), std::end(entities),
                                     [&](const auto& entry) { return entry.first == text->bytes[i]; });
    if (entity == std::end(entities)) continue;
    builder.append(*text, done, i);
    builder.append(entity->second, tag_at(*text, i));
    done = i + 1;
  }
  builder.append(*text, done, text->bytes.size());
  return builder.take(true);
}

}  // namespace sft::jinja
