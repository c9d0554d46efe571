// SPDX-License-Identifier: Apache-2.0
#include "prepare/record.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <stdexcept>

#include "prepare/json_builder.hpp"
#include "prepare/python_numbers.hpp"

namespace sft::prepare {

namespace {

constexpr std::size_t max_refusal_size = 1000;  // it may quote the record

/// JSON in another form than records have it.
void refuse_other_forms(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\xef\xbb\xbf");
  const auto end = text.find_last_not_of(" \t\r");
  if (begin == std::string::npos) return;
  if (text[begin] == '[') refuse_record("it begins an array, and a record is an object");
  if (text[begin] == '{' && begin == end) {
    refuse_record(
        "the object goes on in the next line, and JSON lines are one object a line: `jq -c . FILE` makes them");
  }
}

constexpr std::array lists_of_messages = {"messages", "conversations", "prompt", "completion"};

void drop_from(Json& object, const std::vector<std::string>& names, const std::string& path, RecordCensus& census) {
  for (const std::string& name : names) {
    const auto field = object.find(name);
    if (field == object.end()) continue;
    if (!field->is_null()) census.dropped_fields.add(path + name);
    object.erase(name);
  }
}

}  // namespace

void refuse_record(const std::string& why) {
  throw std::invalid_argument(why.size() <= max_refusal_size ? why : why.substr(0, max_refusal_size) + " ...");
}

Json parse_json(const std::string& text) {
  JsonBuilder builder;
  if (!Json::sax_parse(text, &builder)) {
    const std::string reason = builder.error();
    ParsableText parsable = without_odd_numbers(text);
    if (parsable.odd.empty()) refuse_record(reason);
    builder = JsonBuilder(std::move(parsable.odd));
    if (!Json::sax_parse(parsable.text, &builder)) refuse_record(builder.error());
  }
  if (!builder.repeated_key().empty()) {
    refuse_record(fmt::format("the key '{}' stands twice in one object", builder.repeated_key()));
  }
  return builder.take();
}

void refuse_unshown(const std::string& field, const std::string& why) {
  refuse_record(fmt::format("{}; --ignore_fields {} leaves it out", why, field));
}

Json parse_record(const std::string& text) {
  // The parser would take it for the end of the text.
  if (const auto at = text.find('\0'); at != std::string::npos) {
    refuse_record(
        fmt::format("not JSON: column {} is a NUL byte; a file that was damaged, or one in UTF-16, has them", at + 1));
  }
  refuse_other_forms(text);
  Json record = parse_json(text);
  if (!record.is_object()) refuse_record(fmt::format("the record is {}, not an object", record.type_name()));
  return record;
}

bool has_value(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

bool is_empty(const Json& value) {
  return value.is_null() || (value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty());
}

const std::string& string_of(const Json& object, std::string_view key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) refuse_record(fmt::format("{} has no '{}'", where, key));
  if (!found->is_string()) {
    refuse_record(fmt::format("'{}' of {} is {}, not a string", key, where, found->type_name()));
  }
  return found->get_ref<const std::string&>();
}

void check_object(const Json& entry, const std::string& where) {
  if (!entry.is_object()) refuse_record(fmt::format("{} is {}, not an object", where, entry.type_name()));
}

void check_fields(const Json& object, std::span<const FormlessField> formless, const std::string& where,
                  std::initializer_list<std::string_view> used, const std::string& path, RecordCensus& census) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_null() || std::ranges::find(used, key) != used.end()) continue;
    const auto field = std::ranges::find(formless, key, &FormlessField::name);
    if (field == formless.end()) {
      census.ignored_fields.add(path + key);
    } else if (!is_empty(value)) {
      refuse_unshown(key, fmt::format("{} has '{}', and {}", where, key, field->why));
    }
  }
}

void rename_fields(Json& record, const std::vector<std::pair<std::string, std::string>>& names) {
  for (const auto& [from, to] : names) {
    if (!has_value(record, from)) continue;
    if (has_value(record, to)) {
      refuse_record(fmt::format("it has '{}', which --rename calls '{}', and a '{}' of its own", from, to, to));
    }
    Json value = std::move(record[from]);
    record.erase(from);
    record[to] = std::move(value);
  }
}

void keep_fields(Json& record, const std::vector<std::string>& names, RecordCensus& census) {
  Json kept = Json::object();
  for (auto& [key, value] : record.items()) {
    if (std::ranges::find(names, key) != names.end()) {
      kept[key] = std::move(value);
    } else if (!value.is_null()) {
      census.dropped_fields.add(key);
    }
  }
  record = std::move(kept);
}

void drop_fields(Json& record, const std::vector<std::string>& names, RecordCensus& census) {
  drop_from(record, names, "", census);
}

void drop_fields_of_messages(Json& record, const std::vector<std::string>& names, RecordCensus& census) {
  if (names.empty()) return;
  for (const char* list : lists_of_messages) {
    const auto messages = record.find(list);
    if (messages == record.end()) continue;
    if (messages->is_object()) drop_from(*messages, names, std::string(list) + ".", census);
    if (!messages->is_array()) continue;
    for (Json& message : *messages) {
      if (message.is_object()) drop_from(message, names, std::string(list) + "[].", census);
    }
  }
}

}  // namespace sft::prepare
