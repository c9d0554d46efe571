// SPDX-License-Identifier: Apache-2.0
#pragma once
// The chat template of a model folder or of a file of its own.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sft/jinja/template.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::prepare {

/// A template, compiled, and the names that it speaks of. What jinja's functions refuse with a jinja::TemplateError is
/// a data Error of the same text here.
class ChatTemplate {
 public:
  /// Compiles `source` (UTF-8).
  explicit ChatTemplate(std::string_view source);

  /// jinja::make_context: the variables of a conversation.
  [[nodiscard]] static nlohmann::ordered_json make_context(const nlohmann::ordered_json& messages,
                                                           const nlohmann::ordered_json& tools,
                                                           bool add_generation_prompt,
                                                           const nlohmann::ordered_json& variables);
  /// jinja::Template::render with the variables `context`.
  [[nodiscard]] jinja::Rendered render(const nlohmann::ordered_json& context,
                                       const jinja::RenderOptions& options = {}) const;
  /// jinja::assistant_spans of what render() made of `context`.
  [[nodiscard]] std::vector<jinja::ByteSpan> assistant_spans(const nlohmann::ordered_json& context,
                                                             const jinja::Rendered& rendered,
                                                             const jinja::RenderOptions& options = {}) const;
  /// Whether the source has the name as a word; where it has not, a value under that name changes nothing.
  [[nodiscard]] bool mentions(std::string_view name) const;
  [[nodiscard]] const std::string& source() const { return compiled_.source(); }

 private:
  jinja::Template compiled_;
};

/// The templates of a model, as transformers chooses among them. Null where a folder has none.
struct ChatTemplates {
  std::shared_ptr<const ChatTemplate> standard;  ///< the only one, or the one that is named default
  std::shared_ptr<const ChatTemplate>
      tool_use;                          ///< for records with tools, where the model has one of its own for them
  std::vector<std::string> other_names;  ///< of those that are for neither
};

/// From the file `path`, or if that is "" from the folder of a model: chat_template.jinja and
/// additional_chat_templates/NAME.jinja, else `chat_template` of tokenizer_config.json, one text or a list of named
/// ones. A data Error names the file that cannot be used.
[[nodiscard]] ChatTemplates load_chat_templates(const std::string& path, const std::string& folder);

/// The template `source` alone. A data Error names what it cannot do.
[[nodiscard]] ChatTemplates given_chat_template(const std::string& source);

/// What templates are told of tokens, by their names: bos_token, eos_token, pad_token and unk_token, those that there
/// are.
[[nodiscard]] nlohmann::ordered_json token_variables(const text::Tokenizer& tokenizer,
                                                     const text::SpecialTokens& tokens);

}  // namespace sft::prepare
