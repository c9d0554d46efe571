// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a conversation to the text a model sees, and to the part of it that the assistant wrote.

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "sft/jinja/template.hpp"

namespace sft::jinja {

/// The variables of a template as transformers' apply_chat_template sets them: `messages` without their null members,
/// with `reasoning_content` and `thinking` filled from the first of `reasoning_content`, `thinking` and `reasoning`
/// that is set; `tools` (null: none); `documents` (none); `add_generation_prompt`; then every member of `variables`
/// (special tokens, a record's chat_template_kwargs), which wins over all of these. Throws a TemplateError unless
/// messages is a list of at least one object.
[[nodiscard]] nlohmann::ordered_json make_context(const nlohmann::ordered_json& messages,
                                                  const nlohmann::ordered_json& tools, bool add_generation_prompt,
                                                  const nlohmann::ordered_json& variables);

/// The bytes that the messages of role "assistant" wrote, in order and without overlap: what is trained on. A
/// template's `{% generation %}` blocks say it; without them it is derived: from the end of the turn's header up to and
/// including its end-of-turn token and the newline after it. `context` is what `rendered` was made with by
/// `chat_template`.
[[nodiscard]] std::vector<ByteSpan> assistant_spans(const Template& chat_template,
                                                    const nlohmann::ordered_json& context, const Rendered& rendered,
                                                    const RenderOptions& options = {});

}  // namespace sft::jinja
