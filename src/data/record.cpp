// SPDX-License-Identifier: Apache-2.0
#include "data/record.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <utility>

namespace sft::data {

namespace {

constexpr std::size_t max_reason_size = 200;  // a parser quotes what it read last, which may be a whole book

/// A field whose value would change the text and that ChatML cannot show.
struct FormlessField {
  std::string_view name;
  const char* why;
};

constexpr const char* no_tools = "ChatML has no form for tools";
constexpr const char* no_reasoning = "ChatML has no form for it: write it into 'content'";
constexpr std::array formless_in_records = {
    FormlessField{"tools", no_tools}, FormlessField{"functions", no_tools},
    FormlessField{"images", "pictures cannot be trained on"}, FormlessField{"image", "pictures cannot be trained on"},
    FormlessField{"input_ids", "records that are token ids already cannot be read"}};
constexpr std::array formless_in_messages = {
    FormlessField{"tool_calls", no_tools}, FormlessField{"function_call", no_tools},
    FormlessField{"reasoning_content", no_reasoning}, FormlessField{"reasoning", no_reasoning},
    FormlessField{"thinking", no_reasoning}};

bool is_empty(const Json& value) {
  return value.is_null() || (value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty());
}

/// `path` comes before the names of ignored fields.
void check_fields(const Json& object, std::span<const FormlessField> formless, const std::string& where,
                  std::initializer_list<std::string_view> used, const std::string& path, RecordCensus& census) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_null() || std::ranges::find(used, key) != used.end()) continue;
    const auto field = std::ranges::find(formless, key, &FormlessField::name);
    if (field == formless.end()) {
      census.ignored_fields.add(path + key);
    } else if (!is_empty(value)) {
      refuse_record(where + " has '" + key + "', and " + field->why);
    }
  }
}

/// What a message's tokens count, 0 to 1.
float weight_of(const Json& message, const std::string& where) {
  double weight = 1.0;
  if (has_value(message, "weight")) {
    const Json& value = message["weight"];
    if (!value.is_number()) refuse_record("'weight' of " + where + " is " + value.type_name() + ", not a number");
    weight = value.get<double>();
    if (!(weight >= 0.0 && weight <= 1.0)) refuse_record("'weight' of " + where + " does not lie in 0 to 1");
  }
  if (has_value(message, "train")) {
    const Json& value = message["train"];
    if (!value.is_boolean()) {
      refuse_record("'train' of " + where + " is " + value.type_name() + ", not true or false");
    }
    if (!value.get<bool>()) weight = 0.0;
  }
  return static_cast<float>(weight);
}

/// "[json.exception.parse_error.101] parse error at line 1, column 8: reason" -> "column 8: reason", and of other
/// exceptions the reason; cut where it is long.
std::string reason_of(const Json::exception& error) {
  std::string reason = error.what();
  for (const char* before_it : {"] ", "parse error at line 1, "}) {
    if (const auto at = reason.find(before_it); at < 40) reason.erase(0, at + std::string_view(before_it).size());
  }
  if (reason.size() > max_reason_size) reason = reason.substr(0, max_reason_size) + " ...";
  return reason;
}

/// Told of every event of a parser; knows whether a key stands twice in one object, where the last would win silently.
class RepeatedKeys {
 public:
  bool operator()(int /*depth*/, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::object_start) open_objects_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!open_objects_.back().insert(key).second && repeated_.empty()) repeated_ = "'" + key + "'";
    }
    return true;
  }
  /// The first such key in quotes, "" when there is none.
  [[nodiscard]] const std::string& repeated() const { return repeated_; }

 private:
  std::vector<std::set<std::string>> open_objects_;
  std::string repeated_;
};

/// JSON as whole files hold it, where JSON lines are asked for.
void refuse_json_over_lines(const std::string& line) {
  const auto begin = line.find_first_not_of(" \t\r\xef\xbb\xbf");
  const auto end = line.find_last_not_of(" \t\r");
  if (begin == std::string::npos) return;
  if (line[begin] == '[') {
    refuse_record(
        "it begins an array, and JSON lines are one object a line: `jq -c '.[]' FILE` makes them of an array");
  }
  if (line[begin] == '{' && begin == end) {
    refuse_record(
        "the object goes on in the next line, and JSON lines are one object a line: `jq -c . FILE` makes them");
  }
}

}  // namespace

void refuse_record(const std::string& why) { throw std::invalid_argument(why); }

Json parse_record(const std::string& line) {
  // The parser would take it for the end of the text.
  if (const auto at = line.find('\0'); at != std::string::npos) {
    refuse_record("not JSON: column " + std::to_string(at + 1) +
                  " is a NUL byte; a file that was damaged, or one in UTF-16, has them");
  }
  refuse_json_over_lines(line);
  RepeatedKeys keys;
  Json record;
  try {
    record = Json::parse(line, std::ref(keys));
  } catch (const Json::exception& error) {
    refuse_record("not JSON: " + reason_of(error));
  }
  if (!keys.repeated().empty()) refuse_record("the key " + keys.repeated() + " stands twice in one object");
  if (!record.is_object()) refuse_record(std::string("the record is ") + record.type_name() + ", not an object");
  return record;
}

bool has_value(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

const std::string& string_of(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) refuse_record(where + " has no '" + key + "'");
  if (!found->is_string()) {
    refuse_record("'" + std::string(key) + "' of " + where + " is " + found->type_name() + ", not a string");
  }
  return found->get_ref<const std::string&>();
}

void Conversation::append(Conversation more) {
  messages.insert(messages.end(), std::make_move_iterator(more.messages.begin()),
                  std::make_move_iterator(more.messages.end()));
  weights.insert(weights.end(), more.weights.begin(), more.weights.end());
}

Conversation conversation_of(const Json& record, const char* key, RecordCensus& census) {
  const std::string name = key;
  const Json& list = record[key];
  if (!list.is_array()) refuse_record("'" + name + "' is " + list.type_name() + ", not a list of messages");
  if (list.empty()) refuse_record("'" + name + "' is an empty list");
  Conversation conversation;
  for (const Json& entry : list) {
    const std::string where = "message " + std::to_string(conversation.messages.size() + 1) + " of '" + name + "'";
    if (!entry.is_object()) refuse_record(where + " is " + entry.type_name() + ", not an object");
    check_fields(entry, formless_in_messages, where, {"role", "content", "weight", "train"}, name + "[].", census);
    conversation.messages.push_back(
        {.role = string_of(entry, "role", where), .content = string_of(entry, "content", where)});
    conversation.weights.push_back(weight_of(entry, where));
    census.roles.add(conversation.messages.back().role);
  }
  return conversation;
}

void check_record_fields(const Json& record, std::initializer_list<std::string_view> used, RecordCensus& census) {
  check_fields(record, formless_in_records, "the record", used, "", census);
}

}  // namespace sft::data
