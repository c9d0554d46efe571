// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations in the markup that a model knows: its chat template, or ChatML.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/prepare/chat_templates.hpp"
#include "sft/text/chat.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::apps {

class ChatMarkup {
 public:
  /// The template in the file `path`, or if that is empty `trained`, the source of one, or if both are empty the one of
  /// the folder that the tokenizer came from (prepare::load_chat_templates). Where there is none, ChatML, whose tokens
  /// the tokenizer must have: a configuration Error. A data Error names a file that cannot be used. `tokenizer`
  /// outlives it.
  ChatMarkup(const text::Tokenizer& tokenizer, const std::string& path, const std::string& trained = "");

  /// The conversation, and what asks the model for the next message. A data Error where the template refuses it.
  [[nodiscard]] std::vector<text::TokenId> prompt(const std::vector<text::Message>& messages) const;
  /// What ends a turn of the model in this markup; none where a template does not end it with a special token.
  [[nodiscard]] std::optional<text::TokenId> end_of_turn() const;

 private:
  [[nodiscard]] std::string render(const std::vector<text::Message>& messages, bool asks) const;

  const text::Tokenizer& tokenizer_;
  std::shared_ptr<const prepare::ChatTemplate> template_;  ///< null: ChatML
};

}  // namespace sft::apps
