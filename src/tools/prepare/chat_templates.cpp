// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/chat_templates.hpp"

#include <fmt/core.h>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/jinja/chat_template.hpp"
#include "sft/jinja/error.hpp"
#include "sft/text/chat_template_files.hpp"

namespace sft::prepare {

namespace {

/// What `action` gives; a data Error in place of a TemplateError.
template <class Action>
auto with_data_errors(const Action& action) {
  try {
    return action();
  } catch (const jinja::TemplateError& error) {
    throw Error(ExitStatus::data, error.what());
  }
}

std::shared_ptr<const ChatTemplate> compile(const std::string& source, const std::string& file) {
  try {
    return std::make_shared<const ChatTemplate>(source);
  } catch (const Error& error) {
    throw_data_error(fmt::format("cannot use the chat template of '{}'", file), error.what(),
                     "correct it, or give another one with --chat_template_path");
  }
}

ChatTemplates only(std::shared_ptr<const ChatTemplate> standard) {
  return {.standard = std::move(standard), .tool_use = nullptr, .other_names = {}};
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source)
    : compiled_(with_data_errors([&] { return jinja::Template(source); })) {}

nlohmann::ordered_json ChatTemplate::make_context(const nlohmann::ordered_json& messages,
                                                  const nlohmann::ordered_json& tools, bool add_generation_prompt,
                                                  const nlohmann::ordered_json& variables) {
  return with_data_errors([&] { return jinja::make_context(messages, tools, add_generation_prompt, variables); });
}

jinja::Rendered ChatTemplate::render(const nlohmann::ordered_json& context, const jinja::RenderOptions& options) const {
  return with_data_errors([&] { return compiled_.render(context, options); });
}

std::vector<jinja::ByteSpan> ChatTemplate::assistant_spans(const nlohmann::ordered_json& context,
                                                           const jinja::Rendered& rendered,
                                                           const jinja::RenderOptions& options) const {
  return with_data_errors([&] { return jinja::assistant_spans(compiled_, context, rendered, options); });
}

bool ChatTemplate::mentions(std::string_view name) const {
  const std::string_view source = compiled_.source();
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = source.find(name); at != std::string_view::npos; at = source.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word(source[at - 1])) && (end == source.size() || !is_word(source[end]))) return true;
  }
  return false;
}

ChatTemplates given_chat_template(const std::string& source) { return only(compile(source, "--chat_template")); }

ChatTemplates load_chat_templates(const std::string& path, const std::string& folder) {
  if (!path.empty()) return only(compile(io::read_file_or_pipe(path), path));
  text::TemplateSources sources = text::read_chat_templates(folder);
  ChatTemplates templates;
  if (sources.standard) templates.standard = compile(sources.standard->text, sources.standard->file);
  if (sources.tool_use) templates.tool_use = compile(sources.tool_use->text, sources.tool_use->file);
  templates.other_names = std::move(sources.other_names);
  return templates;
}

nlohmann::ordered_json token_variables(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens) {
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  const auto add = [&](const char* name, const std::optional<text::TokenId>& id) {
    if (id) variables[name] = tokenizer.token_of(*id);
  };
  add("bos_token", tokens.bos);
  add("eos_token", tokens.eos);
  add("pad_token", tokens.pad);
  add("unk_token", tokens.unk);
  return variables;
}

}  // namespace sft::prepare
