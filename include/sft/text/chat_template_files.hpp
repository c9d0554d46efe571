// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sources of the chat templates of a model folder, which nothing compiles here.

#include <optional>
#include <string>
#include <vector>

namespace sft::text {

/// A template in Jinja, and the file that it is from.
struct TemplateSource {
  std::string text, file;
};

/// The templates of a model, as transformers chooses among them.
struct TemplateSources {
  std::optional<TemplateSource> standard;  ///< the only one, or the one that is named default
  std::optional<TemplateSource> tool_use;  ///< for records with tools, where the model has one of its own for them
  std::vector<std::string> other_names;    ///< of those that are for neither
};

/// The templates of a model folder: chat_template.jinja and additional_chat_templates/NAME.jinja, else `chat_template`
/// of tokenizer_config.json, one text or a list of named ones. A data Error names the file that cannot be used.
[[nodiscard]] TemplateSources read_chat_templates(const std::string& folder);

}  // namespace sft::text
