// SPDX-License-Identifier: Apache-2.0
#include "sft/text/chat.hpp"

namespace sft::text {

namespace {

void append(std::vector<TokenId>& tokens, const std::vector<TokenId>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

void append_header(std::vector<TokenId>& tokens, const std::string& role, const Tokenizer& tokenizer) {
  tokens.push_back(tokenizer.specials().turn_begin);
  append(tokens, tokenizer.encode(role + "\n"));
}

}  // namespace

RenderedChat render_chatml(std::span<const Message> messages, const Tokenizer& tokenizer) {
  const std::vector<TokenId> newline = tokenizer.encode("\n");
  RenderedChat chat;
  const auto position = [&chat] { return static_cast<std::int64_t>(chat.tokens.size()); };
  for (const Message& message : messages) {
    MessageSpan span;
    span.begin = position();
    append_header(chat.tokens, message.role, tokenizer);
    span.content_begin = position();
    append(chat.tokens, tokenizer.encode(message.content));
    chat.tokens.push_back(tokenizer.specials().turn_end);
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
