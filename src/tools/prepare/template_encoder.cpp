// SPDX-License-Identifier: Apache-2.0
// Documents for the tokenizer and chat template of a model, as TRL makes them.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "prepare/encoder.hpp"
#include "prepare/shown_turns.hpp"
#include "prepare/turn_ends.hpp"
#include "sft/core/error.hpp"

namespace sft::prepare {

namespace {

/// Keys of messages whose value is lost where the template does not show it.
constexpr std::array telling_keys = {
    "tool_calls", "function_call", "reasoning_content", "reasoning", "thinking", "images", "image", "audios", "audio",
    "videos",     "video"};
constexpr std::array reasoning_keys = {"reasoning_content", "reasoning", "thinking"};

/// The tokens that hold a byte of a span; spans and ranges come in order.
std::vector<bool> tokens_within(const std::vector<jinja::ByteSpan>& spans, const std::vector<text::ByteRange>& ranges) {
  std::vector<bool> within(ranges.size(), false);
  std::size_t span = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    while (span < spans.size() && spans[span].end <= ranges[i].begin) ++span;
    within[i] = span < spans.size() && spans[span].begin < ranges[i].end;
  }
  return within;
}

/// The messages that the fragments of a rendered text belong to; -1: none. Outside of loops over messages, such as
/// before the first turn, the template's own words belong to the message whose value stands before them, or else after.
std::vector<std::int32_t> messages_of(const jinja::Rendered& rendered) {
  const auto& fragments = rendered.fragments;
  std::vector<std::int32_t> messages(fragments.size());
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    const jinja::Fragment& fragment = fragments[i];
    messages[i] = fragment.turn >= 0 ? fragment.turn : -1;
    if (fragment.turn < 0 && fragment.source >= 0) messages[i] = rendered.sources[fragment.source].message;
  }
  const auto is_outside = [&](std::size_t i) { return fragments[i].turn < 0; };
  for (std::size_t i = 1; i < fragments.size(); ++i) {
    if (messages[i] < 0 && is_outside(i - 1)) messages[i] = messages[i - 1];
  }
  for (std::size_t i = fragments.size(); i-- > 1;) {
    if (messages[i - 1] < 0 && is_outside(i)) messages[i - 1] = messages[i];
  }
  return messages;
}

/// Multiplies the weight of every token with that of the message that its first byte came from.
void scale_by_message(Document& document, const jinja::Rendered& rendered, const std::vector<text::ByteRange>& ranges,
                      const std::vector<float>& weights) {
  const std::vector<std::int32_t> messages = messages_of(rendered);
  std::size_t fragment = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    while (fragment + 1 < rendered.fragments.size() && rendered.fragments[fragment].bytes.end <= ranges[i].begin)
      ++fragment;
    if (fragment >= rendered.fragments.size()) return;
    const std::int32_t message = messages[fragment];
    if (message >= 0 && static_cast<std::size_t>(message) < weights.size()) {
      document.loss_weight[i] *= weights[message];
    }
  }
}

std::size_t common_prefix(std::span<const text::TokenId> a, std::span<const text::TokenId> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

class TemplateEncoder : public Encoder {
 public:
  TemplateEncoder(const text::Tokenizer& tokenizer, NamedTokens tokens, ChatTemplates chat_templates,
                  std::chrono::system_clock::time_point template_date)
      : tokenizer_(tokenizer), tokens_(std::move(tokens)), chat_templates_(std::move(chat_templates)) {
    render_options_.now = template_date;
  }

  [[nodiscard]] Document of_text(const std::string& text) const override {
    return trained_from(tokenizer_.encode(with_eos(text), plain_text_), 0);
  }

  [[nodiscard]] Document of_pair(const std::string& prompt, const std::string& completion, bool completion_only,
                                 RecordCensus& census) const override {
    std::vector<text::TokenId> tokens = tokenizer_.encode(prompt + with_eos(completion), plain_text_);
    std::size_t begin = 0;
    if (completion_only) begin = completion_begin(tokenizer_.encode(prompt, plain_text_), tokens, census);
    return trained_from(std::move(tokens), begin);
  }

  [[nodiscard]] Document of_parts(const std::string& prompt, const std::string& completion,
                                  bool completion_only) const override {
    require_eos();
    std::vector<text::TokenId> tokens = tokenizer_.encode(prompt, plain_text_);
    const std::size_t begin = completion_only ? tokens.size() : 0;
    const std::vector<text::TokenId> rest = tokenizer_.encode(completion, markup_);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    const text::TokenId eos = *tokenizer_.id_of(tokens_.eos);
    if (tokens.empty() || tokens.back() != eos) tokens.push_back(eos);
    return trained_from(std::move(tokens), begin);
  }

  [[nodiscard]] Document of_chat(const Conversation& chat, TrainedParts parts, RecordCensus& census) const override {
    const ChatTemplate& chat_template = template_for(chat);
    check_shown(chat, chat_template, census);
    try {
      if (!has_text_parts(chat)) return document_of(chat, chat_template, parts, census);
      Conversation shown = chat;
      shown.messages = messages_for_template(chat, [&](const Json& messages) {
        return chat_template.render(context_of(messages, chat, false), render_options_);
      });
      return document_of(shown, chat_template, parts, census);
    } catch (const Error& error) {
      refuse_record(std::string("the chat template refuses it: ") + error.what());
    }
  }

 private:
  static bool has_text_parts(const Conversation& chat) {
    return std::ranges::any_of(chat.text_parts, [](const Json& parts) { return parts.is_array(); });
  }

  void require_eos() const {
    if (!tokens_.eos.empty()) return;
    throw_config_error("the tokenizer names no token that ends a text", "records of plain text end with one",
                       "name one with --eos_token");
  }

  [[nodiscard]] std::string with_eos(const std::string& text) const {
    require_eos();
    return text.ends_with(tokens_.eos) ? text : text + tokens_.eos;
  }

  static std::size_t completion_begin(const std::vector<text::TokenId>& prompt,
                                      const std::vector<text::TokenId>& tokens, RecordCensus& census) {
    const std::size_t begin = common_prefix(prompt, tokens);
    if (begin < prompt.size()) ++census.num_split_prompts;
    return begin;
  }

  [[nodiscard]] const ChatTemplate& template_for(const Conversation& chat) const {
    const bool has_tools = chat.tools.is_array();
    const auto& chosen = has_tools && chat_templates_.tool_use ? chat_templates_.tool_use : chat_templates_.standard;
    if (!chosen && (chat_templates_.tool_use || !chat_templates_.other_names.empty())) {
      std::string names = fmt::format("{}", fmt::join(chat_templates_.other_names, ", "));
      if (chat_templates_.tool_use) names += names.empty() ? "tool_use" : ", tool_use";
      throw_config_error("the tokenizer has no chat template for records without tools",
                         fmt::format("its templates are {}, and none is named default", names),
                         "give one with --chat_template_path FILE");
    }
    if (!chosen) {
      throw_config_error("the tokenizer has no chat template", "conversations need one to become text",
                         "give one with --chat_template_path FILE");
    }
    return *chosen;
  }

  /// What would be lost is refused; what changes nothing is counted.
  static void check_shown(const Conversation& chat, const ChatTemplate& chat_template, RecordCensus& census) {
    if (!is_empty(chat.tools) && !chat_template.mentions("tools")) {
      refuse_unshown("tools", "the record has 'tools', and the chat template does not show them");
    }
    for (const auto& [key, value] : chat.template_kwargs.items()) {
      if (!chat_template.mentions(key) && key != "add_generation_prompt") {
        census.ignored_fields.add("chat_template_kwargs." + key);
      }
    }
    const auto shows = [&](const std::string& key) {
      if (std::ranges::find(reasoning_keys, key) == reasoning_keys.end()) return chat_template.mentions(key);
      return std::ranges::any_of(reasoning_keys, [&](const char* name) { return chat_template.mentions(name); });
    };
    for (const Json& message : chat.messages) {
      for (const auto& [key, value] : message.items()) {
        if (value.is_null() || key == "role" || key == "content" || shows(key)) continue;
        if (std::ranges::find(telling_keys, key) == telling_keys.end()) {
          census.ignored_fields.add("messages[]." + key);
        } else if (key == "tool_calls" && chat.has_turns_of_calls) {
          refuse_record(
              "a turn calls a tool, and the chat template has no form for it; --chat_template_path gives one "
              "that has");
        } else if (!is_empty(value)) {
          refuse_unshown(key, fmt::format("a message has '{}', and the chat template does not show it", key));
        }
      }
    }
  }

  [[nodiscard]] Json context_of(const Json& messages, const Conversation& chat, bool add_generation_prompt) const {
    Json variables = tokens_.variables;
    for (const auto& [name, value] : chat.template_kwargs.items()) variables[name] = value;
    return ChatTemplate::make_context(messages, chat.tools, add_generation_prompt, variables);
  }

  [[nodiscard]] Document document_of(const Conversation& chat, const ChatTemplate& chat_template, TrainedParts parts,
                                     RecordCensus& census) const {
    const Json context = context_of(chat.messages, chat, false);
    const jinja::Rendered rendered = chat_template.render(context, render_options_);
    check_turns_shown(chat, rendered, census);
    const bool is_weighted = std::ranges::any_of(chat.weights, [](float weight) { return weight != 1.0f; });
    text::Encoding encoding;
    if (is_weighted || parts.assistant_only) {
      encoding = tokenizer_.encode_with_offsets(rendered.text, markup_);
    } else {
      encoding.ids = tokenizer_.encode(rendered.text, markup_);
    }
    std::size_t begin = 0;
    if (parts.completion_only && chat.has_prompt) {
      const auto end_of_prompt = chat.messages.begin() + static_cast<std::ptrdiff_t>(chat.num_prompt_messages);
      const Json prompt_messages(Json::array_t(chat.messages.begin(), end_of_prompt));
      const Json prompt = context_of(prompt_messages, chat, true);
      begin = completion_begin(tokenizer_.encode(chat_template.render(prompt, render_options_).text, markup_),
                               encoding.ids, census);
    }
    Document document = trained_from(encoding.ids, begin);
    if (parts.assistant_only) {
      std::vector<bool> within =
          tokens_within(chat_template.assistant_spans(context, rendered, render_options_), encoding.offsets);
      if (!parts.turn_ends.empty()) {
        within = tokens_said(chat.messages, rendered, encoding, std::move(within), parts.turn_ends);
      }
      for (std::size_t i = 0; i < within.size(); ++i) document.loss_weight[i] *= within[i] ? 1.0f : 0.0f;
      if (std::ranges::find(within, true) == within.end()) ++census.num_unmarked_chats;
    }
    if (is_weighted) scale_by_message(document, rendered, encoding.offsets, chat.weights);
    return document;
  }

  static constexpr text::EncodeOptions plain_text_ = {.add_special_tokens = true};
  static constexpr text::EncodeOptions markup_ = {};

  const text::Tokenizer& tokenizer_;
  NamedTokens tokens_;
  ChatTemplates chat_templates_;
  jinja::RenderOptions render_options_;
};

}  // namespace

std::unique_ptr<Encoder> make_template_encoder(const text::Tokenizer& tokenizer, NamedTokens tokens,
                                               ChatTemplates chat_templates,
                                               std::chrono::system_clock::time_point template_date) {
  return std::make_unique<TemplateEncoder>(tokenizer, std::move(tokens), std::move(chat_templates), template_date);
}

}  // namespace sft::prepare
