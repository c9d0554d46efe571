// SPDX-License-Identifier: Apache-2.0
#include "sft/data/example.hpp"

#include <algorithm>
#include <utility>

#include "data/record.hpp"
#include "sft/text/chat.hpp"

namespace sft::data {

namespace {

constexpr std::size_t max_names = 64;

/// Tokens from `begin` on are trained on.
Document trained_from(std::vector<text::TokenId> tokens, std::size_t begin) {
  Document document{.tokens = std::move(tokens), .loss_weight = {}};
  document.loss_weight.assign(document.tokens.size(), 1.0f);
  std::fill_n(document.loss_weight.begin(), begin, 0.0f);
  return document;
}

Document from_chat(const Conversation& chat, std::size_t num_prompt_messages, const text::Tokenizer& tokenizer,
                   const ExampleOptions& options) {
  text::RenderedChat rendered = text::render_chatml(chat.messages, tokenizer);
  const bool skip_prompt = options.completion_only_loss && num_prompt_messages > 0;
  const auto begin = skip_prompt ? static_cast<std::size_t>(rendered.messages[num_prompt_messages].content_begin) : 0;
  Document document = trained_from(std::move(rendered.tokens), begin);
  for (std::size_t m = 0; m < chat.messages.size(); ++m) {
    const text::MessageSpan& span = rendered.messages[m];
    const auto scale = [&document](std::int64_t from, std::int64_t to, float factor) {
      std::for_each(document.loss_weight.begin() + from, document.loss_weight.begin() + to,
                    [factor](float& weight) { weight *= factor; });
    };
    scale(span.begin, span.end, chat.weights[m]);
    if (options.assistant_only_loss) {
      const bool assistant = chat.messages[m].role == "assistant";
      scale(span.begin, assistant ? span.content_begin : span.end, 0.0f);
      scale(span.turn_end, span.end, 0.0f);
    }
  }
  return document;
}

Document from_strings(const std::string& prompt, const std::string& completion, const text::Tokenizer& tokenizer,
                      const ExampleOptions& options) {
  const std::vector<text::TokenId> prompt_tokens = tokenizer.encode(prompt);
  std::vector<text::TokenId> tokens = tokenizer.encode(prompt + completion);
  // A tokenizer may merge across the seam: the completion begins where the two part.
  const auto seam = std::mismatch(prompt_tokens.begin(), prompt_tokens.end(), tokens.begin(), tokens.end()).second;
  const auto begin = static_cast<std::size_t>(seam - tokens.begin());
  tokens.push_back(tokenizer.eos());
  return trained_from(std::move(tokens), options.completion_only_loss ? begin : 0);
}

void refuse_assistant_only(const ExampleOptions& options, const char* shape) {
  if (options.assistant_only_loss) {
    refuse_record(std::string("assistant_only_loss needs messages with roles, and ") + shape);
  }
}

[[noreturn]] void refuse_shape(const Json& record) {
  std::string keys;
  for (const auto& [key, value] : record.items()) {
    keys += (keys.empty() ? "'" : ", '") + key + "'" + (value.is_null() ? " (null)" : "");
  }
  refuse_record("it has neither 'messages', nor 'prompt' and 'completion', nor 'text', but " +
                (keys.empty() ? "no keys" : keys));
}

}  // namespace

void NameCounts::add(const std::string& name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    ++found->second;
  } else if (by_name_.size() < max_names) {
    by_name_.emplace(name, 1);
  } else {
    ++num_others_;
  }
}

Document make_document(const std::string& record, const text::Tokenizer& tokenizer, const ExampleOptions& options,
                       RecordCensus& census) {
  const Json json = parse_record(record);
  if (has_value(json, "prompt") && has_value(json, "completion")) {
    if (has_value(json, "messages")) {
      refuse_record("it has 'messages' and also 'prompt' and 'completion', and only one of them can be meant");
    }
    check_record_fields(json, {"prompt", "completion"}, census);
    if (json["prompt"].is_array()) {
      Conversation chat = conversation_of(json, "prompt", census);
      const std::size_t num_prompt_messages = chat.messages.size();
      chat.append(conversation_of(json, "completion", census));
      return from_chat(chat, num_prompt_messages, tokenizer, options);
    }
    refuse_assistant_only(options, "prompt and completion are plain strings");
    return from_strings(string_of(json, "prompt", "the record"), string_of(json, "completion", "the record"), tokenizer,
                        options);
  }
  if (has_value(json, "messages")) {
    check_record_fields(json, {"messages"}, census);
    return from_chat(conversation_of(json, "messages", census), 0, tokenizer, options);
  }
  if (has_value(json, "text")) {
    check_record_fields(json, {"text"}, census);
    refuse_assistant_only(options, "'text' has none");
    std::vector<text::TokenId> tokens = tokenizer.encode(string_of(json, "text", "the record"));
    tokens.push_back(tokenizer.eos());
    return trained_from(std::move(tokens), 0);
  }
  refuse_shape(json);
}

}  // namespace sft::data
