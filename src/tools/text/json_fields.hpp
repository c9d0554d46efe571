// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields of the objects in tokenizer.json. What is missing or of another type throws std::invalid_argument with the
// reason.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sft::text {

using Json = nlohmann::json;

/// Parses text of at most 64 nested values; throws std::invalid_argument.
[[nodiscard]] Json parse_json(const std::string& text);

/// Whether the field is there and not null.
[[nodiscard]] bool has_field(const Json& object, const char* name);
[[nodiscard]] const Json& field_of(const Json& object, const char* name);
[[nodiscard]] const Json& array_of(const Json& object, const char* name);
[[nodiscard]] std::string string_of(const Json& object, const char* name);
/// The field's value, or `otherwise` where it is missing or null.
[[nodiscard]] std::string string_of(const Json& object, const char* name, const std::string& otherwise);
[[nodiscard]] bool bool_of(const Json& object, const char* name, bool otherwise);
/// A number from 0 to 2^31 - 1.
[[nodiscard]] std::int32_t number_of(const Json& value, const char* name);
/// A string of one character.
[[nodiscard]] std::string character_of(const Json& object, const char* name);

}  // namespace sft::text
