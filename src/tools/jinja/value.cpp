// SPDX-License-Identifier: Apache-2.0
#include "jinja/value.hpp"

#include <fmt/core.h>
#include <algorithm>

#include "jinja/loop.hpp"
#include "jinja/unicode.hpp"

namespace sft::jinja {

namespace {

constexpr std::size_t max_container_depth = 500;

std::size_t deepest(const std::vector<Value>& items) {
  std::size_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return depth;
}

std::size_t nest(std::size_t depth) {
  if (depth >= max_container_depth) {
    throw Failure(fmt::format("values are nested more than {} deep", max_container_depth));
  }
  return depth + 1;
}

std::size_t deepest(const Dict::Entries& entries) {
  std::size_t depth = 0;
  for (const auto& [key, value] : entries) depth = std::max({depth, depth_of(key), depth_of(value)});
  return depth;
}

}  // namespace

List::List(Heap* heap, Kind list_kind, std::vector<Value> list_items, std::int32_t list_source)
    : items(std::move(list_items)),
      kind(list_kind),
      source(list_source),
      depth(nest(deepest(items))),
      charge(heap, sizeof(List) + items.size() * sizeof(Value)) {}

Dict::Dict(Heap* heap, Entries&& dict_entries, std::int32_t dict_source)
    : source(dict_source),
      depth(nest(deepest(dict_entries))),
      charge(heap, sizeof(Dict) + dict_entries.size() * 4 * sizeof(Value)) {
  entries.reserve(dict_entries.size());
  for (auto& [key, value] : dict_entries) {
    const Text* text = key.text();
    if (text != nullptr) {
      const auto [place, is_new] = index.try_emplace(text->bytes, entries.size());
      if (!is_new) {
        entries[place->second].second = std::move(value);
        continue;
      }
    } else if (const Value* old = find(key)) {
      const auto place =
          std::find_if(entries.begin(), entries.end(), [old](const auto& e) { return &e.second == old; });
      place->second = std::move(value);
      continue;
    }
    entries.emplace_back(std::move(key), std::move(value));
  }
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (const Text* text = key.text()) return find(std::string_view(text->bytes));
  if (index.size() == entries.size()) return nullptr;
  for (const auto& [other, value] : entries) {
    if (other.text() == nullptr && are_equal_keys(other, key)) return &value;
  }
  return nullptr;
}

std::int64_t Range::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Generator::Generator(Heap* heap, std::vector<Value> generated)
    : items(std::move(generated)),
      depth(nest(deepest(items))),
      charge(heap, sizeof(Generator) + items.size() * sizeof(Value)) {}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [member, value] : members) {
    if (member == name) return &value;
  }
  return nullptr;
}

void Namespace::set(const std::string& name, Value value) {
  for (auto& [member, old] : members) {
    if (member == name) {
      old = std::move(value);
      return;
    }
  }
  charge.add(name.size() + sizeof(members.front()));
  members.emplace_back(name, std::move(value));
}

Value make_undefined(std::string message) { return Undefined{std::make_shared<const std::string>(std::move(message))}; }

std::string undefined_message(const Value& value) {
  const auto& message = value.get<Undefined>()->message;
  return message == nullptr ? "the value is undefined" : *message;
}

std::string type_name(const Value& value) {
  if (const List* list = value.list()) {
    static constexpr const char* names[] = {"list", "tuple", "dict_keys", "dict_values", "dict_items"};
    return names[static_cast<std::size_t>(list->kind)];
  }
  if (const Text* text = value.text()) return text->is_markup ? "Markup" : "str";
  static constexpr const char* names[] = {"Undefined", "NoneType", "bool",        "int",      "float",
                                          "str",       "list",     "dict",        "range",    "generator",
                                          "Namespace", "Macro",    "LoopContext", "function", "int"};
  return names[value.data().index()];
}

std::size_t depth_of(const Value& value) {
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  if (const auto* generator = value.get<GeneratorRef>()) return (*generator)->depth;
  if (const auto* loop = value.get<LoopRef>()) return (*loop)->depth_of_items();
  if (const auto* function = value.get<FunctionRef>()) return depth_of((*function)->self) + 1;
  return 0;
}

bool is_true(const Value& value) {
  if (const bool* truth = value.get<bool>()) return *truth;
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto* number = value.get<std::int64_t>()) return *number != 0;
  if (const auto* number = value.get<double>()) return *number != 0;
  if (const Text* text = value.text()) return !text->bytes.empty();
  if (const List* list = value.list()) return !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  if (const auto* range = value.get<RangeRef>()) return (*range)->size() != 0;
  return true;
}

std::optional<std::int64_t> as_integer(const Value& value) {
  if (const bool* truth = value.get<bool>()) return *truth ? 1 : 0;
  if (const auto* number = value.get<std::int64_t>()) return *number;
  return std::nullopt;
}

std::optional<double> as_number(const Value& value) {
  if (const auto* number = value.get<double>()) return *number;
  if (const auto number = as_integer(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::int64_t length_of(const Value& value) {
  if (const Text* text = value.text()) return count_characters(text->bytes);
  if (const List* list = value.list()) return static_cast<std::int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->entries.size());
  if (const auto* range = value.get<RangeRef>()) return (*range)->size();
  if (const auto* loop = value.get<LoopRef>()) return (*loop)->length();
  if (value.is_undefined()) return 0;
  throw Failure(fmt::format("object of type '{}' has no len()", type_name(value)));
}

void require_key(const Value& value) {
  const List* list = value.list();
  if (list != nullptr && list->kind == List::Kind::tuple) fail_unsupported("a tuple as the key of a dict");
  if (list != nullptr || value.dict() != nullptr) throw Failure(fmt::format("unhashable type: '{}'", type_name(value)));
  const bool is_key = value.text() != nullptr || value.is_none() || as_number(value);
  if (!is_key) fail_unsupported(fmt::format("a key of type '{}'", type_name(value)));
}

const TextRef& require_text(const Value& value, std::string_view what) {
  const TextRef* text = value.get<TextRef>();
  if (value.is_undefined()) throw Failure(undefined_message(value));
  if (text == nullptr) throw Failure(fmt::format("{} needs a string, not {}", what, type_name(value)));
  return *text;
}

std::int64_t require_integer(const Value& value, std::string_view what) {
  if (value.is_undefined()) throw Failure(undefined_message(value));
  const auto number = as_integer(value);
  if (!number) throw Failure(fmt::format("{} needs an integer, not {}", what, type_name(value)));
  return *number;
}

}  // namespace sft::jinja
