// SPDX-License-Identifier: Apache-2.0
#include "data/dropped_fields.hpp"

#include <array>

namespace sft::data {

namespace {

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

void drop_fields(Json& record, const std::vector<std::string>& names, RecordCensus& census) {
  if (names.empty()) return;
  drop_from(record, names, "", census);
  for (const char* list : lists_of_messages) {
    const auto messages = record.find(list);
    if (messages == record.end() || !messages->is_array()) continue;
    for (Json& message : *messages) {
      if (message.is_object()) drop_from(message, names, std::string(list) + "[].", census);
    }
  }
}

}  // namespace sft::data
