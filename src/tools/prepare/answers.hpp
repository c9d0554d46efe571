// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers of a record that stand outside of its conversation, and answers that it calls unwanted.

#include <optional>
#include <string>
#include <vector>

#include "prepare/record.hpp"

namespace sft::prepare {

/// Whether a list of turns ends before the assistant answers.
[[nodiscard]] bool lacks_answer(const Json& turns);

/// Whether a value says something as an answer does: a text, a message, or a list of messages.
[[nodiscard]] bool is_answer(const Json& value);

/// The first field, by names that answers have, that holds an answer beside the fields of a conversation; "": none.
[[nodiscard]] std::string answer_in(const Json& record);

/// Fields beside the question and its answer that could be the answer too.
[[nodiscard]] std::vector<std::string> other_answers(const Json& record, const std::string& question,
                                                     const std::string& answer);

/// A field that holds thoughts, and the answer that they lead to.
struct Thoughts {
  std::string field, answer;
};

/// The thoughts before `answer`, or before another answer of `others` that the record has thoughts for; nothing where
/// the record has none.
[[nodiscard]] std::optional<Thoughts> thoughts_in(const Json& record, const std::string& answer,
                                                  const std::vector<std::string>& others);

/// Refuses a record whose label says that its answer is not wanted, as those of KTO do.
void refuse_unwanted(const Json& record);

/// Refuses a record whose conversation, the list `key`, lacks the answer that another field holds.
void refuse_unread_answer(const Json& record, const char* key);

}  // namespace sft::prepare
