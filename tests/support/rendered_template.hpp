// SPDX-License-Identifier: Apache-2.0
#pragma once
// A chat template at work, for tests that give it damaged ones.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "sft/core/ensure.hpp"
#include "sft/prepare/chat_templates.hpp"

namespace sft::test {

/// Renders a conversation that has all that templates look at, and holds what comes of it against its contract: the
/// pieces cover the text, the assistant's spans lie in it. Throws what the template's reader does.
inline std::string render_conversation(const std::string& chat_template_text, const jinja::Limits& limits) {
  static const nlohmann::ordered_json context = nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": "What? \u00e9"},
      {"role": "assistant", "content": "A call", "reasoning_content": "Hm.",
       "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
      {"role": "tool", "content": "5", "name": "f"},
      {"role": "assistant", "content": "Five."}
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"
  })");
  const prepare::ChatTemplate chat_template(chat_template_text);
  jinja::RenderOptions options;
  options.limits = limits;
  options.now = {};
  const jinja::Rendered rendered = chat_template.render(context, options);
  std::size_t end = 0;
  for (const jinja::Fragment& fragment : rendered.fragments) {
    SFT_ENSURE(fragment.bytes.begin == end && fragment.bytes.end > end, "the pieces of a rendering cover its text");
    end = fragment.bytes.end;
  }
  SFT_ENSURE(end == rendered.text.size(), "the pieces of a rendering cover its text");
  for (const jinja::ByteSpan& span : chat_template.assistant_spans(context, rendered, options)) {
    SFT_ENSURE(span.begin < span.end && span.end <= end, "the assistant's spans lie in the text");
  }
  return rendered.text;
}

}  // namespace sft::test
