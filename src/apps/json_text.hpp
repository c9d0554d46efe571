// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON that programs print for others.

#include <nlohmann/json.hpp>
#include <string>

namespace sft::apps {

/// The value as text, which is printable: control characters are escaped as JSON does it, bytes that are no UTF-8
/// become U+FFFD. `indent`: blanks for each level, -1: one line.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value, int indent = 2);

}  // namespace sft::apps
