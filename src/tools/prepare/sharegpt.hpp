// SPDX-License-Identifier: Apache-2.0
#pragma once
// The turns of ShareGPT's lists as messages.

#include <optional>
#include <string>

#include "prepare/record.hpp"

namespace sft::prepare {

/// The name of who speaks, "" where the entry of a list of turns has none.
[[nodiscard]] std::string speaker_of(const Json& turn);

/// The role of chat templates for a speaker, whose letters may be capital; docs/data.md lists them. Others stay.
[[nodiscard]] std::string sharegpt_role(const std::string& speaker);

/// The entry of "conversations" as a message with a "role"; `where` names it in refusals. The text of a turn whose role
/// says that it calls tools becomes "tool_calls"; where it holds no calls, the census counts it.
[[nodiscard]] Json message_of_turn(const Json& turn, const std::string& where, RecordCensus& census);

/// Whether the "tool_calls" of the message were the text of the turn.
[[nodiscard]] bool is_turn_of_calls(const Json& turn, const Json& message);

/// The names of the two texts of a turn that both speakers say.
struct Exchange {
  const char* question;
  const char* answer;
};

/// The two turns of an entry such as {"input": U, "output": A}; nothing for any other entry.
[[nodiscard]] std::optional<Exchange> exchange_in(const Json& turn);

/// A list of turns that have no names for who speaks, with them: texts are said by the user and the assistant in turn,
/// and exchanges by both; other fields of these are counted as ignored. Null for other lists.
[[nodiscard]] Json named_turns(const Json& list, RecordCensus& census);

}  // namespace sft::prepare
