// SPDX-License-Identifier: Apache-2.0
#pragma once
// The calls of tools that data set formats write as the text of a turn.

#include <string>

#include "prepare/record.hpp"

namespace sft::prepare {

/// The fields of a message that calls tools: "content" and "tool_calls", as chat templates take them. `value` is the
/// text of a turn whose role says that it calls: an object with "name" and "arguments", or a list of these, in JSON,
/// after the thoughts of a reasoning model where it begins with <think>. Null where the value is none of these. An "id"
/// is the call's; other fields of it are counted as ignored.
[[nodiscard]] Json message_of_calls(const Json& value, RecordCensus& census);

}  // namespace sft::prepare
