// SPDX-License-Identifier: Apache-2.0
#include "sft/text/chat.hpp"

#include <fmt/core.h>

#include "sft/core/error.hpp"

namespace sft::text {

namespace {

/// The token of ChatML's markup that has this name.
TokenId markup_token(const char* name, const Tokenizer& tokenizer) {
  if (const std::optional<TokenId> id = tokenizer.id_of(name)) return *id;
  throw_config_error(fmt::format("the tokenizer {} has no token {}", tokenizer.name(), name),
                     "conversations are written as ChatML", "take a tokenizer that knows ChatML");
}

void append(std::vector<TokenId>& tokens, const std::vector<TokenId>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

void append_header(std::vector<TokenId>& tokens, const std::string& role, const Tokenizer& tokenizer) {
  tokens.push_back(markup_token("<|im_start|>", tokenizer));
  append(tokens, tokenizer.encode(role + "\n"));
}

}  // namespace

RenderedChat render_chatml(std::span<const Message> messages, const Tokenizer& tokenizer) {
  const TokenId turn_end = markup_token("<|im_end|>", tokenizer);
  const std::vector<TokenId> newline = tokenizer.encode("\n");
  RenderedChat chat;
  const auto position = [&chat] { return static_cast<std::int64_t>(chat.tokens.size()); };
  for (const Message& message : messages) {
    MessageSpan span;
    span.begin = position();
    append_header(chat.tokens, message.role, tokenizer);
    span.content_begin = position();
    append(chat.tokens, tokenizer.encode(message.content));
    chat.tokens.push_back(turn_end);
    span.turn_end = position();
    append(chat.tokens, newline);
    span.end = position();
    chat.messages.push_back(span);
  }
  return chat;
}

std::vector<TokenId> chatml_generation_prompt(const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  append_header(tokens, "assistant", tokenizer);
  return tokens;
}

}  // namespace sft::text
