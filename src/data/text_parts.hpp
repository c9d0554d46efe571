// SPDX-License-Identifier: Apache-2.0
#pragma once
// Contents of messages that are lists of parts of text: {"type": "text", "text": "..."}.

#include <functional>

#include "data/conversation.hpp"
#include "sft/jinja/template.hpp"

namespace sft::data {

/// Renders messages with the template; throws where it refuses them.
using RenderMessages = std::function<jinja::Rendered(const Json& messages)>;

/// The messages of a chat as a template is to be given them. Some templates read lists of parts, and may trim each of
/// them or write something between; others print the list as Python does, raise, or write nothing. So it is tried: the
/// lists of a role stay where the text of all their parts is shown, but for blanks, or as much of it as of one text;
/// elsewhere a list is the text of its parts, one behind the other.
[[nodiscard]] Json messages_for_template(const Conversation& chat, const RenderMessages& render);

}  // namespace sft::data
