// SPDX-License-Identifier: Apache-2.0
// Filters that compare items with each other.

#include <fmt/core.h>
#include <algorithm>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/filters.hpp"
#include "jinja/strings.hpp"

namespace sft::jinja {

namespace {

/// What an item is compared by.
using Key = std::vector<Value>;

Value ignore_case(Evaluator& evaluator, const Value& value, bool is_case_sensitive) {
  const auto* text = value.get<TextRef>();
  return text == nullptr || is_case_sensitive ? value : Value(change_case(evaluator.heap(), *text, Case::lower));
}

bool is_key_less(Heap& heap, const Key& left, const Key& right) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (is_less(heap, left[i], right[i])) return true;
    if (!are_equal(heap, left[i], right[i])) return false;
  }
  return false;
}

struct Keyed {
  Key key;
  Value item;
};

/// A merge sort, which stays in bounds whatever the comparison says, and keeps the order of equals.
void sort_keyed(Heap& heap, std::vector<Keyed>& items, bool is_reversed) {
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    std::vector<Keyed> merged;
    merged.reserve(items.size());
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size()), end = std::min(begin + 2 * width, items.size());
      std::size_t left = begin, right = middle;
      while (left < middle || right < end) {
        const bool takes_right =
            left == middle || (right < end && (is_reversed ? is_key_less(heap, items[left].key, items[right].key)
                                                           : is_key_less(heap, items[right].key, items[left].key)));
        merged.push_back(std::move(items[takes_right ? right++ : left++]));
      }
    }
    items = std::move(merged);
  }
}

std::vector<Value> unwrap(std::vector<Keyed> items) {
  std::vector<Value> values;
  for (Keyed& item : items) values.push_back(std::move(item.item));
  return values;
}

/// The smallest or the largest item, the first of equals.
Value extreme(Evaluator& evaluator, const Value& input, const Arguments& arguments, bool is_max) {
  const Parameters parameters(is_max ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  std::optional<Keyed> best;
  for (Value& item : items_of(evaluator.heap(), input)) {
    const Value member = parameters.has(1) ? member_of(evaluator, item, *parameters[1]) : item;
    Key key = {ignore_case(evaluator, member, parameters.truth(0, false))};
    const bool is_better = !best || (is_max ? is_key_less(evaluator.heap(), best->key, key)
                                            : is_key_less(evaluator.heap(), key, best->key));
    if (is_better) best = Keyed{std::move(key), std::move(item)};
  }
  return best ? best->item : make_undefined("No aggregated item, sequence was empty.");
}

}  // namespace

Value filter_dictsort(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = parameters[1] == nullptr ? "key" : require_text(*parameters[1], "dictsort()")->bytes;
  if (by != "key" && by != "value") throw Failure("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) throw Failure(undefined_message(input));
  if (input.dict() == nullptr) throw Failure(fmt::format("'{}' object has no attribute 'items'", type_name(input)));
  std::vector<Keyed> items;
  for (const auto& [key, value] : input.dict()->entries) {
    items.push_back({{ignore_case(evaluator, by == "key" ? key : value, parameters.truth(0, false))},
                     evaluator.make_list(List::Kind::tuple, {key, value})});
  }
  sort_keyed(evaluator.heap(), items, parameters.truth(2, false));
  return evaluator.make_list(List::Kind::list, unwrap(std::move(items)));
}

Value filter_sort(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> paths = {None{}};
  if (parameters.has(2)) {
    const auto* text = parameters[2]->get<TextRef>();
    paths = {*parameters[2]};
    if (text != nullptr) {
      paths.clear();
      const TextRef comma = make_text(nullptr, ",");
      for (const TextRef& path : split(evaluator.heap(), *text, comma.get(), -1)) paths.emplace_back(path);
    }
  }
  std::vector<Keyed> items;
  for (Value& item : items_of(evaluator.heap(), input)) {
    Key key;
    for (const Value& path : paths) {
      key.push_back(ignore_case(evaluator, member_of(evaluator, item, path), parameters.truth(1, false)));
    }
    items.push_back({std::move(key), std::move(item)});
  }
  sort_keyed(evaluator.heap(), items, parameters.truth(0, false));
  return evaluator.make_list(List::Kind::list, unwrap(std::move(items)));
}

Value filter_unique(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> seen, unique;
  for (Value& item : items_of(evaluator.heap(), input)) {
    const Value member = parameters.has(1) ? member_of(evaluator, item, *parameters[1]) : item;
    const Value key = ignore_case(evaluator, member, parameters.truth(0, false));
    require_key(key);
    const bool is_known = std::any_of(seen.begin(), seen.end(),
                                      [&](const Value& other) { return are_equal(evaluator.heap(), other, key); });
    if (is_known) continue;
    seen.push_back(key);
    unique.push_back(std::move(item));
  }
  return std::make_shared<Generator>(&evaluator.heap(), std::move(unique));
}

Value filter_max(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return extreme(evaluator, input, arguments, true);
}
Value filter_min(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return extreme(evaluator, input, arguments, false);
}

}  // namespace sft::jinja
