// SPDX-License-Identifier: Apache-2.0
// Filters of what has items.

#include <fmt/core.h>
#include <functional>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/filters.hpp"
#include "jinja/operators.hpp"
#include "jinja/registry.hpp"
#include "jinja/strings.hpp"

namespace sft::jinja {

namespace {

Value generate(Evaluator& evaluator, std::vector<Value> items) {
  return std::make_shared<Generator>(&evaluator.heap(), std::move(items));
}

const std::string& name_of(const Value& value, std::string_view what) { return require_text(value, what)->bytes; }

/// The arguments from the one with that index on.
Arguments rest_of(const Arguments& arguments, std::size_t first) {
  Arguments rest;
  for (std::size_t i = first; i < arguments.positional.size(); ++i) rest.positional.push_back(arguments.positional[i]);
  rest.named = arguments.named;
  return rest;
}

/// select, reject and their variants for a member: items for which the test says `wanted`.
Value choose(Evaluator& evaluator, const Value& input, const Arguments& arguments, bool by_member, bool wanted) {
  std::vector<Value> chosen;
  if (!is_true(input)) return generate(evaluator, {});
  const std::size_t first = by_member ? 1 : 0;
  if (arguments.positional.size() < first) throw Failure("Missing parameter for attribute name");
  TestFunction test = nullptr;
  if (arguments.positional.size() > first) {
    const std::string& name = name_of(arguments.positional[first], "the name of a test");
    test = find_test(name);
    if (test == nullptr) fail_unsupported(fmt::format("the test '{}'", name));
  }
  const Arguments rest = rest_of(arguments, first + 1);
  for (Value& item : items_of(evaluator.heap(), input)) {
    const Value tested = by_member ? member_of(evaluator, item, arguments.positional[0]) : item;
    const bool holds = test == nullptr ? is_true(tested) : test(evaluator, tested, rest);
    if (holds == wanted) chosen.push_back(std::move(item));
  }
  return generate(evaluator, std::move(chosen));
}

}  // namespace

Value member_of(Evaluator& evaluator, const Value& item, const Value& path, const Value* otherwise) {
  const auto get = [&](const Value& object, const Value& key) {
    Value member = evaluator.get_item(object, key);
    return member.is_undefined() && otherwise != nullptr ? *otherwise : member;
  };
  const auto* text = path.get<TextRef>();
  if (text == nullptr) return path.is_none() ? item : get(item, path);
  Value member = item;
  for (const TextRef& part : split(evaluator.heap(), *text, make_text(&evaluator.heap(), ".").get(), -1)) {
    const bool is_index = !part->bytes.empty() && part->bytes.size() < 18 &&
                          part->bytes.find_first_not_of("0123456789") == std::string::npos;
    member = get(member, is_index ? Value(std::int64_t{std::stoll(part->bytes)}) : Value(part));
  }
  return member;
}

Value filter_first(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("first", arguments, {});
  std::optional<Value> item = iterate(evaluator.heap(), input)->next();
  return item ? *std::move(item) : make_undefined("No first item, sequence was empty.");
}

Value filter_last(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("last", arguments, {});
  if (input.is_undefined()) throw Failure("'Undefined' object is not reversible");
  if (input.get<GeneratorRef>()) throw Failure("'generator' object is not reversible");
  std::vector<Value> items = items_of(evaluator.heap(), input);
  return items.empty() ? make_undefined("No last item, sequence was empty.") : items.back();
}

Value filter_join(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("join", arguments, {"d", "attribute"});
  std::vector<TextRef> parts;
  for (const Value& item : items_of(evaluator.heap(), input)) {
    const Value part = parameters.has(1) ? member_of(evaluator, item, *parameters[1]) : item;
    parts.push_back(to_text(evaluator, part));
  }
  const TextRef separator = parameters[0] == nullptr ? make_text(nullptr, "") : to_text(evaluator, *parameters[0]);
  TextBuilder builder(&evaluator.heap());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) builder.append(*separator);
    builder.append(*parts[i]);
  }
  return builder.take();
}

Value filter_list(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("list", arguments, {});
  return evaluator.make_list(List::Kind::list, items_of(evaluator.heap(), input));
}

Value filter_reverse(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("reverse", arguments, {});
  if (input.text() != nullptr) return slice(evaluator, input, std::nullopt, std::nullopt, -1);
  std::vector<Value> items = items_of(evaluator.heap(), input);
  std::reverse(items.begin(), items.end());
  return generate(evaluator, std::move(items));
}

Value filter_map(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  std::vector<Value> mapped;
  if (!is_true(input)) return generate(evaluator, {});
  const bool by_member = arguments.positional.empty() && !arguments.named.empty();
  if (by_member) {
    const Parameters parameters("map", arguments, {"attribute", "default"}, 1);
    const Value* otherwise = parameters.has(1) ? parameters[1] : nullptr;
    for (const Value& item : items_of(evaluator.heap(), input)) {
      mapped.push_back(member_of(evaluator, item, *parameters[0], otherwise));
    }
    return generate(evaluator, std::move(mapped));
  }
  if (arguments.positional.empty()) throw Failure("map requires a filter argument");
  const std::string& name = name_of(arguments.positional[0], "the name of a filter");
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) fail_unsupported(fmt::format("the filter '{}'", name));
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& item : items_of(evaluator.heap(), input)) mapped.push_back(filter(evaluator, item, rest));
  return generate(evaluator, std::move(mapped));
}

Value filter_select(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return choose(evaluator, input, arguments, false, true);
}
Value filter_reject(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return choose(evaluator, input, arguments, false, false);
}
Value filter_selectattr(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return choose(evaluator, input, arguments, true, true);
}
Value filter_rejectattr(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return choose(evaluator, input, arguments, true, false);
}

}  // namespace sft::jinja
