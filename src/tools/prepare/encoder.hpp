// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the parts of a record to a document: how text ends, what markup conversations get, where a completion begins.

#include <memory>
#include <string>
#include <vector>

#include "prepare/conversation.hpp"
#include "sft/prepare/chat_templates.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::prepare {

/// What is trained on of a record with a prompt or of a conversation.
struct TrainedParts {
  bool completion_only = false;
  bool assistant_only = false;
  /// With assistant_only: an assistant's turn is what its message says and the one of these behind it (tokens_said).
  /// Empty: all that the template writes of it.
  std::vector<text::TokenId> turn_ends = {};
};

/// Immutable: threads may use one object at the same time. All throw std::invalid_argument for what cannot be shown.
class Encoder {
 public:
  virtual ~Encoder() = default;
  [[nodiscard]] virtual Document of_text(const std::string& text) const = 0;
  [[nodiscard]] virtual Document of_pair(const std::string& prompt, const std::string& completion, bool completion_only,
                                         RecordCensus& census) const = 0;
  /// Tokens of both made apart, so that none spans the border, and the end-of-text token; the prompt is trained on
  /// unless completion_only.
  [[nodiscard]] virtual Document of_parts(const std::string& prompt, const std::string& completion,
                                          bool completion_only) const = 0;
  [[nodiscard]] virtual Document of_chat(const Conversation& chat, TrainedParts parts, RecordCensus& census) const = 0;
};

/// Every token from `begin` on is trained on.
[[nodiscard]] Document trained_from(std::vector<text::TokenId> tokens, std::size_t begin);

/// ChatML, and no word of the text is ever a special token; `eos` ends plain text.
[[nodiscard]] std::unique_ptr<Encoder> make_chatml_encoder(const text::Tokenizer& tokenizer, text::TokenId eos);

/// Tokens by name, for templates and for the end of texts.
struct NamedTokens {
  std::string eos;                  ///< "": there is none
  Json variables = Json::object();  ///< what templates are told: bos_token, eos_token, ...
};

/// An encoder that does what TRL does: the name of the end-of-text token is appended to a text that does not end with
/// it, the tokenizer adds its special tokens to plain text, the chat template writes conversations, and names of
/// special tokens in any text are those tokens. `chat_templates` may be empty: then conversations are refused.
[[nodiscard]] std::unique_ptr<Encoder> make_template_encoder(const text::Tokenizer& tokenizer, NamedTokens tokens,
                                                             ChatTemplates chat_templates,
                                                             std::chrono::system_clock::time_point template_date);

/// Renders messages with the template; throws where it refuses them.
using RenderMessages = std::function<jinja::Rendered(const Json& messages)>;

/// The messages of a chat as a template is to be given them. Some templates read lists of parts, and may trim each of
/// them or write something between; others print the list as Python does, raise, or write nothing. So it is tried: the
/// lists of a role stay where the text of all their parts is shown, but for blanks, or as much of it as of one text;
/// elsewhere a list is the text of its parts, one behind the other.
[[nodiscard]] Json messages_for_template(const Conversation& chat, const RenderMessages& render);

}  // namespace sft::prepare
