// SPDX-License-Identifier: Apache-2.0
// Which methods values have.

#include <algorithm>
#include <array>
#include <map>

#include "jinja/arguments.hpp"
#include "jinja/evaluator.hpp"
#include "jinja/registry.hpp"

namespace sft::jinja {

namespace {

using Methods = std::map<std::string_view, Method>;

Value dict_get(Evaluator&, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) throw Failure("dict.get() takes no keyword arguments");
  const Parameters parameters("get", arguments, {"key", "default"}, 1);
  require_key(*parameters[0]);
  const Value* value = self.dict()->find(*parameters[0]);
  if (value != nullptr) return *value;
  return parameters[1] == nullptr ? Value(None{}) : *parameters[1];
}

Value dict_view(Evaluator& evaluator, const Value& self, const Arguments& arguments, List::Kind kind) {
  const Parameters none("the method", arguments, {});
  const Dict& dict = *self.dict();
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    if (kind == List::Kind::keys) items.push_back(key);
    if (kind == List::Kind::values) items.push_back(value);
    if (kind == List::Kind::items) items.push_back(evaluator.make_list(List::Kind::tuple, {key, value}, dict.source));
  }
  return evaluator.make_list(kind, std::move(items), dict.source);
}

Value dict_keys(Evaluator& e, const Value& self, const Arguments& a) { return dict_view(e, self, a, List::Kind::keys); }
Value dict_values(Evaluator& e, const Value& self, const Arguments& a) {
  return dict_view(e, self, a, List::Kind::values);
}
Value dict_items(Evaluator& e, const Value& self, const Arguments& a) {
  return dict_view(e, self, a, List::Kind::items);
}

const Methods& table_of(const Value& value) {
  static const Methods dict = {{"get", dict_get}, {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}};
  static const Methods none;
  if (value.text() != nullptr) return text_methods();
  return value.dict() != nullptr ? dict : none;
}

template <std::size_t size>
bool has(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_forbidden(const Value& value, std::string_view name) {
  static constexpr std::array<std::string_view, 5> of_dict = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::array<std::string_view, 8> of_list = {"append", "clear", "pop",    "reverse",
                                                              "insert", "sort",  "extend", "remove"};
  if (value.dict() != nullptr) return has(of_dict, name);
  return value.list() != nullptr && value.list()->kind == List::Kind::list && has(of_list, name);
}

/// What Python has on these types and templates do not need.
bool is_unsupported(const Value& value, std::string_view name) {
  static constexpr std::array<std::string_view, 37> of_text = {
      "casefold",     "center",  "count",     "encode",    "expandtabs", "find",         "format_map", "index",
      "isalnum",      "isalpha", "isascii",   "isdecimal", "isdigit",    "isidentifier", "islower",    "isnumeric",
      "isprintable",  "isspace", "istitle",   "isupper",   "ljust",      "maketrans",    "partition",  "removeprefix",
      "removesuffix", "rfind",   "rindex",    "rjust",     "rpartition", "rsplit",       "splitlines", "striptags",
      "swapcase",     "title",   "translate", "unescape",  "zfill"};
  static constexpr std::array<std::string_view, 12> of_number = {
      "real",      "imag",     "numerator",  "denominator",      "conjugate",  "bit_length",
      "bit_count", "to_bytes", "from_bytes", "as_integer_ratio", "is_integer", "hex"};
  static constexpr std::array<std::string_view, 5> of_range = {"start", "stop", "step", "index", "count"};
  static constexpr std::array<std::string_view, 3> of_list = {"copy", "count", "index"};
  static constexpr std::array<std::string_view, 2> of_view = {"mapping", "isdisjoint"};
  static constexpr std::array<std::string_view, 3> of_generator = {"send", "throw", "close"};
  if (value.text() != nullptr) return has(of_text, name);
  if (value.dict() != nullptr) return name == "copy" || name == "fromkeys";
  if (as_number(value)) return has(of_number, name);
  if (value.get<RangeRef>()) return has(of_range, name);
  if (value.get<GeneratorRef>()) return has(of_generator, name);
  const List* list = value.list();
  return list != nullptr && (list->is_sequence() ? has(of_list, name) : has(of_view, name));
}

}  // namespace

MethodLookup find_method(const Value& value, std::string_view name) {
  using Kind = MethodLookup::Kind;
  const Methods& table = table_of(value);
  if (const auto found = table.find(name); found != table.end()) return {Kind::method, found->second};
  if (is_forbidden(value, name)) return {Kind::forbidden, nullptr};
  if (is_unsupported(value, name)) return {Kind::unsupported, nullptr};
  const bool is_internal = name.size() > 4 && name.starts_with("__") && name.ends_with("__");
  return {is_internal ? Kind::forbidden : Kind::none, nullptr};
}

}  // namespace sft::jinja
