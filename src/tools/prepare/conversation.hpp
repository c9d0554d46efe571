// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages of a record, whatever data set format they come from, as chat templates take them.

#include <string>
#include <vector>

#include "prepare/record.hpp"

namespace sft::prepare {

/// Messages of a chat, how much each counts, and what else the template is given.
struct Conversation {
  Json messages =
      Json::array();  ///< objects with a string "role"; "content" is a string or, where the record says so, null
  /// One a message: its content as the record has it where that is a list of parts of text, which "content" joins.
  std::vector<Json> text_parts;
  std::vector<float> weights;  ///< one a message, 0 to 1
  Json tools;                  ///< a list of objects; null: none
  Json template_kwargs = Json::object();
  std::size_t num_prompt_messages = 0;  ///< of a prompt with a completion; 0: there is no prompt
  bool has_prompt = false;
  bool has_turns_of_calls = false;  ///< "tool_calls" of a message were the text of a turn whose role says that it calls
};

/// A "system" of the record is the first message in all of them.
/// {"messages": [...]}; a "mask" (NeMo) names the role, or roles, that is not trained on.
[[nodiscard]] Conversation chat_of_messages(const Json& record, RecordCensus& census);
/// {"prompt": [...], "completion": [...]}, turns of messages or of ShareGPT; a prompt of text is said by the user, a
/// completion of text by the assistant, and a completion may be one message.
[[nodiscard]] Conversation chat_of_pair(const Json& record, RecordCensus& census);
/// {"conversations": [{"from": R, "value": S}, ...]}, of ShareGPT, with the roles and the calls of tools as
/// docs/data.md says, and "mask" as for messages; or texts of the user and the assistant in turn; or [{"input": U,
/// "output": A}, ...].
[[nodiscard]] Conversation chat_of_sharegpt(const Json& record, RecordCensus& census);
/// {"instruction": I, "input": X, "output": O}, of Alpaca: the user says I, a newline and X, the assistant completes O.
/// "history", a list of pairs, comes before.
[[nodiscard]] Conversation chat_of_alpaca(const Json& record, RecordCensus& census);

}  // namespace sft::prepare
