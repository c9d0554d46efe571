// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/chat_templates.hpp"

#include <fmt/core.h>
#include <cctype>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/jinja/chat_template.hpp"
#include "sft/jinja/error.hpp"

namespace sft::prepare {

namespace {

namespace fs = std::filesystem;

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

void add(ChatTemplates& templates, const std::string& name, const std::string& source, const std::string& file) {
  if (name == "default") {
    templates.standard = compile(source, file);
  } else if (name == "tool_use") {
    templates.tool_use = compile(source, file);
  } else {
    templates.other_names.push_back(name);
  }
}

/// Reads chat_template.jinja and the files alongside it.
ChatTemplates templates_in_files(const fs::path& folder) {
  ChatTemplates templates;
  const auto add_file = [&](const std::string& name, const fs::path& file) {
    add(templates, name, io::read_file(file.string()), file.string());
  };
  std::error_code error;
  if (fs::is_regular_file(folder / "chat_template.jinja", error)) add_file("default", folder / "chat_template.jinja");
  std::map<std::string, fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "additional_chat_templates", error)) {
    if (entry.path().extension() == ".jinja") files.emplace(entry.path().stem().string(), entry.path());
  }
  for (const auto& [name, file] : files) add_file(name, file);
  return templates;
}

ChatTemplates named_templates(const nlohmann::json& list, const std::string& file) {
  ChatTemplates templates;
  for (const nlohmann::json& entry : list) {
    if (!entry.is_object() || !entry.value("name", nlohmann::json()).is_string() ||
        !entry.value("template", nlohmann::json()).is_string()) {
      throw_data_error(fmt::format("cannot use the chat template of '{}'", file),
                       "an entry of its list has no name or template", "give one with --chat_template_path");
    }
    add(templates, entry["name"].get<std::string>(), entry["template"].get<std::string>(), file);
  }
  return templates;
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
  ChatTemplates in_files = templates_in_files(folder);
  if (in_files.standard || in_files.tool_use || !in_files.other_names.empty()) return in_files;
  const std::string config_file = (fs::path(folder) / "tokenizer_config.json").string();
  if (!fs::exists(config_file)) return {};
  const nlohmann::json config = nlohmann::json::parse(io::read_file(config_file), nullptr, false);
  if (!config.is_object() || !config.contains("chat_template") || config["chat_template"].is_null()) return {};
  const nlohmann::json& value = config["chat_template"];
  if (value.is_string()) return only(compile(value.get<std::string>(), config_file));
  if (value.is_array()) return named_templates(value, config_file);
  throw_data_error(fmt::format("cannot use the chat template of '{}'", config_file),
                   fmt::format("it is {}, neither a text nor a list", value.type_name()),
                   "give one with --chat_template_path");
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
