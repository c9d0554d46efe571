// SPDX-License-Identifier: Apache-2.0
// Python's ==, < and `in`.

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "jinja/loop.hpp"
#include "jinja/value.hpp"

namespace sft::jinja {

namespace {

/// -1, 0 or 1; nothing if one of them is not a number. Exact for integers that no double holds.
std::optional<int> compare_with_double(std::int64_t integer, double number) {
  if (std::isnan(number)) return std::nullopt;
  if (number >= 9223372036854775808.0) return -1;
  if (number < -9223372036854775808.0) return 1;
  const double whole = std::floor(number);
  const auto floor = static_cast<std::int64_t>(whole);
  if (integer != floor) return integer < floor ? -1 : 1;
  return whole < number ? -1 : 0;
}

/// Two integers in decimal.
int compare_digits(std::string_view left, std::string_view right) {
  const bool is_negative = left.starts_with('-');
  if (is_negative != right.starts_with('-')) return is_negative ? -1 : 1;
  const int sign = is_negative ? -1 : 1;
  if (left.size() != right.size()) return left.size() < right.size() ? -sign : sign;
  const int order = left.compare(right);
  return order == 0 ? 0 : (order < 0 ? -sign : sign);
}

/// With a double, or if `number` is nullptr with any integer of 64 bits.
std::optional<int> compare_big(const BigInteger& big, const double* number) {
  const int sign = big.digits.starts_with('-') ? -1 : 1;
  if (number == nullptr) return sign;
  if (std::isnan(*number)) return std::nullopt;
  const double nearest = std::strtod(big.digits.c_str(), nullptr);
  if (nearest == *number && std::isfinite(nearest)) fail_unsupported("an integer beyond 64 bits beside a float");
  if (std::isinf(*number)) return *number < 0 ? 1 : -1;
  return nearest < *number ? -1 : 1;
}

struct NumberOrder {
  bool are_numbers = false;
  std::optional<int> order;
};

NumberOrder compare_numbers(const Value& left, const Value& right) {
  const auto a = as_integer(left), b = as_integer(right);
  if (a && b) return {true, *a < *b ? -1 : (*a > *b ? 1 : 0)};
  const double* x = left.get<double>();
  const double* y = right.get<double>();
  if (x != nullptr && y != nullptr) {
    if (std::isnan(*x) || std::isnan(*y)) return {true, std::nullopt};
    return {true, *x < *y ? -1 : (*x > *y ? 1 : 0)};
  }
  if (a && y != nullptr) return {true, compare_with_double(*a, *y)};
  if (b && x != nullptr) {
    const auto order = compare_with_double(*b, *x);
    return {true, order ? std::optional(-*order) : std::nullopt};
  }
  const auto* big = left.get<BigIntegerRef>();
  const auto* other = right.get<BigIntegerRef>();
  if (big != nullptr && other != nullptr) return {true, compare_digits((*big)->digits, (*other)->digits)};
  if (big != nullptr && (b || y != nullptr)) return {true, compare_big(**big, y)};
  if (other != nullptr && (a || x != nullptr)) {
    const auto order = compare_big(**other, x);
    return {true, order ? std::optional(-*order) : std::nullopt};
  }
  return {};
}

bool are_equal_dicts(Heap& heap, const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* other = right.find(entry.first);
    return other != nullptr && are_equal(heap, entry.second, *other);
  });
}

bool are_equal_lists(Heap& heap, const List& left, const List& right) {
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(),
                    [&](const Value& a, const Value& b) { return are_equal(heap, a, b); });
}

/// Where the object of a kind that equals only itself lies.
const void* object_of(const Value& value) {
  if (const auto* generator = value.get<GeneratorRef>()) return generator->get();
  if (const auto* space = value.get<NamespaceRef>()) return space->get();
  if (const auto* macro = value.get<MacroRef>()) return macro->get();
  return value.get<LoopRef>()->get();
}

bool are_equal_ranges(const Range& left, const Range& right) {
  if (left.size() != right.size()) return false;
  return left.size() == 0 || (left.start == right.start && (left.size() == 1 || left.step == right.step));
}

}  // namespace

bool are_equal_keys(const Value& left, const Value& right) {
  if (const NumberOrder numbers = compare_numbers(left, right); numbers.are_numbers) return numbers.order == 0;
  if (left.text() != nullptr && right.text() != nullptr) return left.text()->bytes == right.text()->bytes;
  return left.is_none() && right.is_none();
}

bool are_equal(Heap& heap, const Value& left, const Value& right) {
  heap.step();
  if (const NumberOrder numbers = compare_numbers(left, right); numbers.are_numbers) return numbers.order == 0;
  if (left.data().index() != right.data().index()) return false;
  if (left.is_undefined() || left.is_none()) return true;
  if (const Text* text = left.text()) {
    heap.move_bytes(text->bytes.size());
    return text->bytes == right.text()->bytes;
  }
  if (const List* list = left.list()) return list == right.list() || are_equal_lists(heap, *list, *right.list());
  if (const Dict* dict = left.dict()) return dict == right.dict() || are_equal_dicts(heap, *dict, *right.dict());
  if (const auto* range = left.get<RangeRef>()) return are_equal_ranges(**range, **right.get<RangeRef>());
  if (const auto* function = left.get<FunctionRef>()) {
    const Function& other = **right.get<FunctionRef>();
    return (*function)->call == other.call && are_equal(heap, (*function)->self, other.self);
  }
  return object_of(left) == object_of(right);
}

bool is_less(Heap& heap, const Value& left, const Value& right) {
  heap.step();
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) throw Failure(undefined_message(*side));
  }
  if (const NumberOrder numbers = compare_numbers(left, right); numbers.are_numbers) {
    return numbers.order && *numbers.order < 0;
  }
  if (left.text() != nullptr && right.text() != nullptr) {
    heap.move_bytes(left.text()->bytes.size());
    return left.text()->bytes < right.text()->bytes;
  }
  const List* a = left.list();
  const List* b = right.list();
  if (a != nullptr && b != nullptr && a->is_sequence() && a->kind == b->kind) {
    for (std::size_t i = 0; i < std::min(a->items.size(), b->items.size()); ++i) {
      if (!are_equal(heap, a->items[i], b->items[i])) return is_less(heap, a->items[i], b->items[i]);
    }
    return a->items.size() < b->items.size();
  }
  throw Failure(fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(left), type_name(right)));
}

bool contains(Heap& heap, const Value& haystack, const Value& needle) {
  if (const Text* text = haystack.text()) {
    const Text* part = needle.text();
    if (part == nullptr) {
      throw Failure(fmt::format("'in <string>' requires string as left operand, not {}", type_name(needle)));
    }
    heap.move_bytes(text->bytes.size());
    return ::memmem(text->bytes.data(), text->bytes.size(), part->bytes.data(), part->bytes.size()) != nullptr;
  }
  if (const Dict* dict = haystack.dict()) {
    require_key(needle);
    if (needle.text() == nullptr) heap.step(dict->entries.size());
    return dict->find(needle) != nullptr;
  }
  if (const auto* range = haystack.get<RangeRef>()) {
    const auto number = as_integer(needle);
    if (!number || (*range)->size() == 0) return false;
    const std::int64_t distance = *number - (*range)->start;
    return distance % (*range)->step == 0 && distance / (*range)->step >= 0 &&
           distance / (*range)->step < (*range)->size();
  }
  const bool is_iterable = haystack.list() != nullptr || haystack.is_undefined() || haystack.get<GeneratorRef>();
  if (!is_iterable) throw Failure(fmt::format("argument of type '{}' is not iterable", type_name(haystack)));
  const std::unique_ptr<Iterator> items = iterate(heap, haystack);
  while (const std::optional<Value> item = items->next()) {
    if (are_equal(heap, *item, needle)) return true;
  }
  return false;
}

}  // namespace sft::jinja
