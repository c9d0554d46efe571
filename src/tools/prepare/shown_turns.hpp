// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether all that was said in a chat came out of the template.

#include "prepare/conversation.hpp"
#include "sft/jinja/template.hpp"

namespace sft::prepare {

/// Refuses a chat of which the template left out a whole turn, or the calls of tools of one; counts the messages whose
/// calls are shown and whose content is not. `rendered` was made of the chat's messages.
void check_turns_shown(const Conversation& chat, const jinja::Rendered& rendered, RecordCensus& census);

}  // namespace sft::prepare
