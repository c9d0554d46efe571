// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text of one record as a JSON object, and what its fields may hold.

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "sft/prepare/example.hpp"

namespace sft::prepare {

using Json = nlohmann::ordered_json;

/// Ends the reading of a record: throws std::invalid_argument.
[[noreturn]] void refuse_record(const std::string& why);

/// Ends the reading of a record as refuse_record() does, because of a field whose value would be lost, which its owner
/// may not want.
[[noreturn]] void refuse_unshown(const std::string& field, const std::string& why);

/// The value that a text holds, RFC 8259 with the numbers of Python (integers of any size, NaN, Infinity), in a time
/// and memory that grow with its length alone. Here and below, what cannot be is refused with refuse_record(): no JSON,
/// a key that stands twice in one object, values nested deeper than 512.
[[nodiscard]] Json parse_json(const std::string& text);

/// The object that a record's text holds.
[[nodiscard]] Json parse_record(const std::string& text);

/// Whether the object has the key, with another value than null.
[[nodiscard]] bool has_value(const Json& object, std::string_view key);

/// Null, "", [] and {}.
[[nodiscard]] bool is_empty(const Json& value);

/// The string under `key`; `where` names the object in messages.
[[nodiscard]] const std::string& string_of(const Json& object, std::string_view key, const std::string& where);

/// Refuses an entry of a list that is no object; `where` names it.
void check_object(const Json& entry, const std::string& where);

/// A field whose value would change the text if it could be shown.
struct FormlessField {
  std::string_view name;
  const char* why;
};

/// Refuses those of `formless` that hold something, and counts the others as ignored under `path` + name, but for those
/// in `used`.
void check_fields(const Json& object, std::span<const FormlessField> formless, const std::string& where,
                  std::initializer_list<std::string_view> used, const std::string& path, RecordCensus& census);

/// Gives fields of the record other names: (its own, the one that is read). Refuses a record in which both hold a
/// value.
void rename_fields(Json& record, const std::vector<std::pair<std::string, std::string>>& names);

/// Leaves these fields of the record alone. Others that hold a value are counted as dropped.
void keep_fields(Json& record, const std::vector<std::string>& names, RecordCensus& census);

/// Takes the fields of these names out of the record. Those that hold a value are counted as dropped: "tools".
void drop_fields(Json& record, const std::vector<std::string>& names, RecordCensus& census);

/// Drops fields of the messages in its lists, under the names that these have when they are read:
/// "messages[].reasoning_content".
void drop_fields_of_messages(Json& record, const std::vector<std::string>& names, RecordCensus& census);

/// The document of a record that has tokens already, {"input_ids": [...]}: all is trained on, or the tokens whose
/// "labels" are not -100, or those whose "completion_mask" (obeyed with completion_only_loss) and "assistant_masks" are
/// both 1. Ids lie in [0, vocab_size).
[[nodiscard]] Document document_of_ids(const Json& record, std::int64_t vocab_size, const ExampleOptions& options,
                                       RecordCensus& census);

}  // namespace sft::prepare
