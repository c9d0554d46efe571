// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line of a JSON-lines file as a JSON object, and what its fields may hold.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sft/data/example.hpp"
#include "sft/text/chat.hpp"

namespace sft::data {

using Json = nlohmann::json;

/// Ends the reading of a record: throws std::invalid_argument.
[[noreturn]] void refuse_record(const std::string& why);

/// The object that a line holds. Here and below, what cannot be is refused with refuse_record().
[[nodiscard]] Json parse_record(const std::string& line);

/// Whether the object has the key, with another value than null.
[[nodiscard]] bool has_value(const Json& object, const char* key);

/// The string under `key`; `where` names the object in messages.
[[nodiscard]] const std::string& string_of(const Json& object, const char* key, const std::string& where);

/// Messages of a chat, and how much each counts.
struct Conversation {
  std::vector<text::Message> messages;
  std::vector<float> weights;  ///< one a message, 0 to 1

  void append(Conversation more);
};

/// The list of messages under `key` of a record.
[[nodiscard]] Conversation conversation_of(const Json& record, const char* key, RecordCensus& census);

/// Refuses fields that have no form in the text, and counts the others as ignored, but for those in `used`.
void check_record_fields(const Json& record, std::initializer_list<std::string_view> used, RecordCensus& census);

}  // namespace sft::data
