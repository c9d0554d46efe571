// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values from JSON and to JSON.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "jinja/value.hpp"

namespace sft::jinja {

/// The members of the object `context` as variables. Everything inside the messages of its member `messages` has a
/// source, which is appended to `sources`. Integers beyond 64 bits may be binary data, their
/// digits. Fails on values that are nested too deep.
[[nodiscard]] std::map<std::string, Value, std::less<>> variables_of(Heap& heap, const nlohmann::ordered_json& context,
                                                                     std::vector<Source>& sources);

/// How Python's json.dumps writes; the defaults are those of the filter `tojson`.
struct JsonStyle {
  bool ensures_ascii = false;
  bool sorts_keys = false;
  bool has_indent = false;
  std::string indent;  ///< of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// Fails for what JSON cannot hold.
[[nodiscard]] TextRef to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace sft::jinja
