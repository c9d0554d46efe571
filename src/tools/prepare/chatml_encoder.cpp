// SPDX-License-Identifier: Apache-2.0
// Documents for a tokenizer without a model: ChatML.

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <utility>

#include "prepare/encoder.hpp"
#include "sft/text/chat.hpp"

namespace sft::prepare {

namespace {

constexpr const char* no_tools = "ChatML has no form for tools";
constexpr const char* no_reasoning = "ChatML has no form for it: write it into 'content'";
constexpr const char* no_media = "only text can be trained on";
constexpr std::array formless_in_messages = {FormlessField{"images", no_media},
                                             FormlessField{"image", no_media},
                                             FormlessField{"videos", no_media},
                                             FormlessField{"video", no_media},
                                             FormlessField{"audios", no_media},
                                             FormlessField{"audio", no_media},
                                             FormlessField{"tool_calls", no_tools},
                                             FormlessField{"function_call", no_tools},
                                             FormlessField{"reasoning_content", no_reasoning},
                                             FormlessField{"reasoning", no_reasoning},
                                             FormlessField{"thinking", no_reasoning}};

class ChatmlEncoder : public Encoder {
 public:
  ChatmlEncoder(const text::Tokenizer& tokenizer, text::TokenId eos) : tokenizer_(tokenizer), eos_(eos) {}

  [[nodiscard]] Document of_text(const std::string& text) const override {
    std::vector<text::TokenId> tokens = tokenizer_.encode(text);
    tokens.push_back(eos_);
    return trained_from(std::move(tokens), 0);
  }

  [[nodiscard]] Document of_pair(const std::string& prompt, const std::string& completion, bool completion_only,
                                 RecordCensus& /*census*/) const override {
    const std::size_t begin = completion_only ? tokenizer_.encode(prompt).size() : 0;
    std::vector<text::TokenId> tokens = tokenizer_.encode(prompt + completion);
    tokens.push_back(eos_);
    return trained_from(std::move(tokens), begin);
  }

  [[nodiscard]] Document of_parts(const std::string& prompt, const std::string& completion,
                                  bool completion_only) const override {
    std::vector<text::TokenId> tokens = tokenizer_.encode(prompt);
    const std::size_t begin = completion_only ? tokens.size() : 0;
    const std::vector<text::TokenId> rest = tokenizer_.encode(completion);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    tokens.push_back(eos_);
    return trained_from(std::move(tokens), begin);
  }

  [[nodiscard]] Document of_chat(const Conversation& chat, TrainedParts parts, RecordCensus& census) const override {
    const std::vector<text::Message> messages = messages_of(chat, census);
    text::RenderedChat rendered = text::render_chatml(messages, tokenizer_);
    const bool skip_prompt = parts.completion_only && chat.has_prompt;
    const auto begin = skip_prompt ? rendered.messages[chat.num_prompt_messages].content_begin : 0;
    Document document = trained_from(std::move(rendered.tokens), begin);
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const text::MessageSpan& span = rendered.messages[m];
      const auto scale = [&document](std::int64_t from, std::int64_t to, float factor) {
        std::for_each(document.loss_weight.begin() + from, document.loss_weight.begin() + to,
                      [factor](float& weight) { weight *= factor; });
      };
      scale(span.begin, span.end, chat.weights[m]);
      if (parts.assistant_only) {
        const bool assistant = messages[m].role == "assistant";
        scale(span.begin, assistant ? span.content_begin : span.end, 0.0f);
        scale(span.turn_end, span.end, 0.0f);
      }
    }
    return document;
  }

 private:
  static std::vector<text::Message> messages_of(const Conversation& chat, RecordCensus& census) {
    if (!is_empty(chat.tools)) refuse_record(std::string("the record has 'tools', and ") + no_tools);
    for (const auto& [key, value] : chat.template_kwargs.items()) {
      census.ignored_fields.add("chat_template_kwargs." + key);
    }
    if (chat.has_turns_of_calls) refuse_record(std::string("a turn calls a tool, and ") + no_tools);
    std::vector<text::Message> messages;
    for (const Json& entry : chat.messages) {
      // Numbered as in the record.
      const bool is_completion = chat.has_prompt && messages.size() >= chat.num_prompt_messages;
      const std::size_t number = messages.size() + 1 - (is_completion ? chat.num_prompt_messages : 0);
      const std::string list = is_completion ? "completion" : chat.has_prompt ? "prompt" : "messages";
      const std::string where = fmt::format("message {} of '{}'", number, list);
      check_fields(entry, formless_in_messages, where, {"role", "content"}, list + "[].", census);
      messages.push_back({.role = string_of(entry, "role", where), .content = string_of(entry, "content", where)});
    }
    return messages;
  }

  const text::Tokenizer& tokenizer_;
  text::TokenId eos_;
};

}  // namespace

Document trained_from(std::vector<text::TokenId> tokens, std::size_t begin) {
  Document document{.tokens = std::move(tokens), .loss_weight = {}};
  document.loss_weight.assign(document.tokens.size(), 1.0f);
  std::fill_n(document.loss_weight.begin(), std::min(begin, document.tokens.size()), 0.0f);
  return document;
}

std::unique_ptr<Encoder> make_chatml_encoder(const text::Tokenizer& tokenizer, text::TokenId eos) {
  return std::make_unique<ChatmlEncoder>(tokenizer, eos);
}

}  // namespace sft::prepare
