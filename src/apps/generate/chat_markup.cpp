// SPDX-License-Identifier: Apache-2.0
#include "chat_markup.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

#include "sft/core/error.hpp"

namespace sft::apps {

ChatMarkup::ChatMarkup(const text::Tokenizer& tokenizer, const std::string& path, const std::string& trained)
    : tokenizer_(tokenizer),
      template_(path.empty() && !trained.empty() ? std::make_shared<const prepare::ChatTemplate>(trained)
                                                 : prepare::load_chat_templates(path, tokenizer.name()).standard) {
  if (!template_ && (!tokenizer.id_of("<|im_start|>") || !tokenizer.id_of("<|im_end|>"))) {
    throw_config_error("the model has no chat template",
                       "its folder has none, and its tokenizer lacks <|im_start|> and <|im_end|> of ChatML",
                       "give one with --chat_template_path, or leave out --chat");
  }
}

std::string ChatMarkup::render(const std::vector<text::Message>& messages, bool asks) const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const text::Message& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  const nlohmann::ordered_json variables = prepare::token_variables(tokenizer_, tokenizer_.specials());
  return template_->render(prepare::ChatTemplate::make_context(list, nullptr, asks, variables)).text;
}

std::vector<text::TokenId> ChatMarkup::prompt(const std::vector<text::Message>& messages) const {
  if (template_) return tokenizer_.encode_markup(render(messages, /*asks=*/true));
  std::vector<text::TokenId> tokens = text::render_chatml(messages, tokenizer_).tokens;
  const std::vector<text::TokenId> request = text::chatml_generation_prompt(tokenizer_);
  tokens.insert(tokens.end(), request.begin(), request.end());
  return tokens;
}

std::optional<text::TokenId> ChatMarkup::end_of_turn() const {
  if (!template_) return tokenizer_.id_of("<|im_end|>");
  constexpr std::string_view answer = "What the model says.";
  std::string text;
  try {
    text = render({{"user", "What a user says."}, {"assistant", std::string(answer)}}, /*asks=*/false);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::size_t begin = text.rfind(answer);
  if (begin == std::string::npos) return std::nullopt;
  for (const text::TokenId id : tokenizer_.encode_markup(std::string_view(text).substr(begin + answer.size()))) {
    if (tokenizer_.is_special(id)) return id;
  }
  return std::nullopt;
}

}  // namespace sft::apps
