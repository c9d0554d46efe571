// SPDX-License-Identifier: Apache-2.0
#include "jinja/json.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "jinja/unicode.hpp"

namespace sft::jinja {

namespace {

using Json = nlohmann::ordered_json;

constexpr int max_json_depth = 400;

Value value_of(Heap& heap, const Json& json, std::int32_t source, int depth) {
  if (depth > max_json_depth) throw Failure(fmt::format("the data are nested more than {} deep", max_json_depth));
  heap.step();
  const Tag tag{.source = source};
  switch (json.type()) {
    case Json::value_t::null:
      return None{};
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (!std::in_range<std::int64_t>(number))
        return std::make_shared<const BigInteger>(&heap, std::to_string(number));
      return static_cast<std::int64_t>(number);
    }
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return make_text(&heap, json.get_ref<const std::string&>(), tag);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(value_of(heap, item, source, depth + 1));
      return std::make_shared<const List>(&heap, List::Kind::list, std::move(items), source);
    }
    case Json::value_t::object: {
      Dict::Entries entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        entries.emplace_back(make_text(&heap, key, tag), value_of(heap, item, source, depth + 1));
      }
      return std::make_shared<const Dict>(&heap, std::move(entries), source);
    }
    case Json::value_t::binary: {
      const Json::binary_t& digits = json.get_binary();
      return std::make_shared<const BigInteger>(&heap, std::string(digits.begin(), digits.end()));
    }
    default:
      fail_unsupported("a value that was discarded");
  }
}

Value message_of(Heap& heap, const Json& json, std::int32_t index, std::vector<Source>& sources) {
  if (!json.is_object()) return value_of(heap, json, -1, 1);
  Dict::Entries entries;
  for (const auto& [key, item] : json.items()) {
    const auto source = static_cast<std::int32_t>(sources.size());
    sources.push_back({index, key});
    entries.emplace_back(make_text(&heap, key), value_of(heap, item, source, 2));
  }
  auto message = std::make_shared<Dict>(&heap, std::move(entries));
  message->message = index;
  return DictRef(std::move(message));
}

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style) : style_(style), builder_(&heap) {}

  TextRef write(const Value& value) {
    append(value, 0);
    return builder_.take();
  }

 private:
  void append(const Value& value, std::size_t level) {
    if (const Text* text = value.text()) return append_string(*text);
    if (const List* list = value.list(); list != nullptr && list->is_sequence()) return append_list(*list, level);
    if (const Dict* dict = value.dict()) return append_dict(*dict, level);
    if (const std::string scalar = scalar_text(value); !scalar.empty()) return builder_.append(scalar);
    throw Failure(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
  }

  static std::string scalar_text(const Value& value) {
    if (value.is_none()) return "null";
    if (const bool* truth = value.get<bool>()) return *truth ? "true" : "false";
    if (const auto* number = value.get<std::int64_t>()) return std::to_string(*number);
    if (const auto* number = value.get<BigIntegerRef>()) return (*number)->digits;
    if (const auto* number = value.get<double>()) {
      if (std::isnan(*number)) return "NaN";
      if (std::isinf(*number)) return *number < 0 ? "-Infinity" : "Infinity";
      return float_text(*number);
    }
    return {};
  }

  [[nodiscard]] std::string escape_of(CodePoint character, char byte) const {
    switch (character) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    const auto unit = [](unsigned value) { return fmt::format("\\u{:04x}", value & 0xFFFFU); };
    if (character < 0) return style_.ensures_ascii ? unit(0xDC00U + static_cast<unsigned char>(byte)) : std::string();
    const bool is_plain = character >= 0x20 && (!style_.ensures_ascii || character < 0x7F);
    if (is_plain) return {};
    const auto value = static_cast<unsigned>(character);
    if (value < 0x10000) return unit(value);
    return unit(0xD800U + ((value - 0x10000U) >> 10)) + unit(0xDC00U + ((value - 0x10000U) & 0x3FFU));
  }

  void append_string(const Text& text) {
    const std::string& bytes = text.bytes;
    builder_.append("\"", tag_at(text, 0));
    std::size_t done = 0;
    for (std::size_t position = 0; position < bytes.size();) {
      const std::size_t begin = position;
      const CodePoint character = next_code_point(bytes, position);
      const std::string escape = escape_of(character, bytes[begin]);
      if (escape.empty()) continue;
      builder_.append(text, done, begin);
      builder_.append(escape, tag_at(text, begin));
      done = position;
    }
    builder_.append(text, done, bytes.size());
    builder_.append("\"", tag_at(text, bytes.empty() ? 0 : bytes.size() - 1));
  }

  void append_line(std::size_t level, const Tag& tag) {
    if (!style_.has_indent) return;
    builder_.append("\n", tag);
    for (std::size_t i = 0; i < level; ++i) builder_.append(style_.indent, tag);
  }

  void append_list(const List& list, std::size_t level) {
    const Tag tag{.source = list.source};
    if (list.items.empty()) return builder_.append("[]", tag);
    builder_.append("[", tag);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) builder_.append(style_.item_separator, tag);
      append_line(level + 1, tag);
      append(list.items[i], level + 1);
    }
    append_line(level, tag);
    builder_.append("]", tag);
  }

  void append_key(const Value& key, const Tag& tag) {
    if (const Text* text = key.text()) return append_string(*text);
    builder_.append(fmt::format("\"{}\"", scalar_text(key)), tag);
  }

  void append_dict(const Dict& dict, std::size_t level) {
    const Tag tag{.source = dict.source};
    if (dict.entries.empty()) return builder_.append("{}", tag);
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorts_keys) sort_keys(entries);
    builder_.append("{", tag);
    bool is_first = true;
    for (const auto* entry : entries) {
      if (!is_first) builder_.append(style_.item_separator, tag);
      is_first = false;
      append_line(level + 1, tag);
      append_key(entry->first, tag);
      builder_.append(style_.key_separator, tag);
      append(entry->second, level + 1);
    }
    append_line(level, tag);
    builder_.append("}", tag);
  }

  static void sort_keys(std::vector<const std::pair<Value, Value>*>& entries) {
    const bool are_texts =
        std::all_of(entries.begin(), entries.end(), [](const auto* e) { return e->first.text() != nullptr; });
    if (!are_texts) fail_unsupported("sorting keys that are no strings");
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto* a, const auto* b) { return a->first.text()->bytes < b->first.text()->bytes; });
  }

  const JsonStyle& style_;
  TextBuilder builder_;
};

}  // namespace

std::map<std::string, Value, std::less<>> variables_of(Heap& heap, const Json& context, std::vector<Source>& sources) {
  std::map<std::string, Value, std::less<>> variables;
  for (const auto& [name, json] : context.items()) {
    if (name != "messages" || !json.is_array()) {
      variables[name] = value_of(heap, json, -1, 1);
      continue;
    }
    std::vector<Value> messages;
    for (const Json& message : json) {
      messages.push_back(message_of(heap, message, static_cast<std::int32_t>(messages.size()), sources));
    }
    variables[name] = std::make_shared<const List>(&heap, List::Kind::list, std::move(messages));
  }
  return variables;
}

TextRef to_json(Heap& heap, const Value& value, const JsonStyle& style) { return JsonWriter(heap, style).write(value); }

}  // namespace sft::jinja
