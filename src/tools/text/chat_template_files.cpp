// SPDX-License-Identifier: Apache-2.0
#include "sft/text/chat_template_files.hpp"

#include <fmt/core.h>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::text {

namespace {

namespace fs = std::filesystem;

void add(TemplateSources& templates, const std::string& name, const std::string& source, const std::string& file) {
  if (name == "default") {
    templates.standard = {source, file};
  } else if (name == "tool_use") {
    templates.tool_use = {source, file};
  } else {
    templates.other_names.push_back(name);
  }
}

/// Reads chat_template.jinja and the files alongside it.
TemplateSources templates_in_files(const fs::path& folder) {
  TemplateSources templates;
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

TemplateSources named_templates(const nlohmann::json& list, const std::string& file) {
  TemplateSources templates;
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

TemplateSources read_chat_templates(const std::string& folder) {
  TemplateSources in_files = templates_in_files(folder);
  if (in_files.standard || in_files.tool_use || !in_files.other_names.empty()) return in_files;
  const std::string config_file = (fs::path(folder) / "tokenizer_config.json").string();
  if (!fs::exists(config_file)) return {};
  const nlohmann::json config = nlohmann::json::parse(io::read_file(config_file), nullptr, false);
  if (!config.is_object() || !config.contains("chat_template") || config["chat_template"].is_null()) return {};
  const nlohmann::json& value = config["chat_template"];
  if (value.is_string())
    return {.standard = TemplateSource{value.get<std::string>(), config_file}, .tool_use = {}, .other_names = {}};
  if (value.is_array()) return named_templates(value, config_file);
  throw_data_error(fmt::format("cannot use the chat template of '{}'", config_file),
                   fmt::format("it is {}, neither a text nor a list", value.type_name()),
                   "give one with --chat_template_path");
}

}  // namespace sft::text
