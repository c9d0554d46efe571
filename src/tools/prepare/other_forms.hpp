// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations that a record holds as text.

#include "prepare/record.hpp"

namespace sft::prepare {

/// The list of objects in a text of JSON, as tables of one type for a column have it; null for any other value.
[[nodiscard]] Json list_in_text(const Json& value);

/// Replaces lists of turns and the template's variables that are texts of JSON by what they hold. Refuses a list of
/// turns as Python prints it.
void decode_texts(Json& record);

/// Refuses an object that is a table as pandas writes it: of columns, of rows by their index, or "split".
void refuse_tables(const Json& record);

/// Refuses a record of questions, the functions that may be called, and the calls that answer, both as JSON (xlam).
void refuse_functions_for_query(const Json& record);

/// Refuses a record whose conversation is one text in which "USER:" and "ASSISTANT:" begin turns (glaive).
void refuse_transcripts(const Json& record);

}  // namespace sft::prepare
