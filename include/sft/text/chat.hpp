// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations as ChatML: "<|im_start|>role\ncontent<|im_end|>\n" for every message.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

struct Message {
  std::string role;  ///< system, user, assistant, ...
  std::string content;
};

/// Token positions of one rendered message, begin < content_begin < turn_end <= end.
struct MessageSpan {
  std::int64_t begin = 0;          ///< of <|im_start|>
  std::int64_t content_begin = 0;  ///< of what its author wrote
  std::int64_t turn_end = 0;       ///< past <|im_end|>: an assistant's turn is [content_begin, turn_end)
  std::int64_t end = 0;            ///< past the newline; the next message begins here
};

struct RenderedChat {
  std::vector<TokenId> tokens;
  std::vector<MessageSpan> messages;  ///< one per message, in order; together they cover the tokens
};

/// Roles and contents are encoded as plain text, so none of them can forge the markup. A configuration
/// Error where the tokenizer has no <|im_start|> and <|im_end|>.
[[nodiscard]] RenderedChat render_chatml(std::span<const Message> messages, const Tokenizer& tokenizer);

/// What asks the model for the next message: "<|im_start|>assistant\n".
[[nodiscard]] std::vector<TokenId> chatml_generation_prompt(const Tokenizer& tokenizer);

}  // namespace sft::text
