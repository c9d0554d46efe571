// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/tokenizer_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "config_fields.hpp"
#include "sft/io/files.hpp"

namespace sft::hub {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* config_name = "tokenizer_config.json";

/// The object in the file; null where there is none.
ordered_json read_object(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return nullptr;
  ordered_json object = ordered_json::parse(io::read_file(path.string()), nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : nullptr;
}

void write_object(const fs::path& path, const ordered_json& object) {
  io::write_file_atomically(path.string(), object.dump(2) + "\n");
}

/// The value of a field; null where it is not there.
const ordered_json& field(const ordered_json& object, const char* name) {
  static const ordered_json null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

/// Whether version 4 has this class put the bos_token before every text, unless add_bos_token is false.
bool begins_with_bos(std::string name) {
  static constexpr std::array<std::string_view, 4> classes{"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer",
                                                           "CohereTokenizer"};
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return std::ranges::find(classes, name) != classes.end();
}

/// Version 5 goes by the post-processor of tokenizer.json and no longer saves add_bos_token.
bool adds_bos(const ordered_json& config, const fs::path& folder) {
  const ordered_json& bos = field(config, "bos_token");
  const ordered_json& name = bos.is_object() ? field(bos, "content") : bos;
  const ordered_json tokenizer = read_object(folder / "tokenizer.json");
  return tokenizer.is_null() || field(tokenizer, "post_processor").dump().find(name.dump()) != std::string::npos;
}

/// tokenizer_config.json of the folder as version 4 reads it.
ordered_json readable(ordered_json config, const fs::path& folder) {
  if (config.is_null()) return config;
  if (field(config, "tokenizer_class") == "TokenizersBackend") config["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (field(config, "extra_special_tokens").is_array()) {
    if (field(config, "additional_special_tokens").is_null()) {
      config["additional_special_tokens"] = config["extra_special_tokens"];
    }
    config.erase("extra_special_tokens");
  }
  if (field(config, "model_specific_special_tokens").is_object() && field(config, "extra_special_tokens").is_null()) {
    config["extra_special_tokens"] = config["model_specific_special_tokens"];
  }
  const ordered_json& name = field(config, "tokenizer_class");
  const bool is_of_version_5 = config.contains("backend") && !config.contains("add_bos_token");
  if (is_of_version_5 && name.is_string() && begins_with_bos(name.get<std::string>()) && !adds_bos(config, folder)) {
    config["add_bos_token"] = false;
  }
  return config;
}

}  // namespace

bool is_tokenizer_readable(const std::string& folder) {
  const ordered_json config = read_object(fs::path(folder) / config_name);
  return readable(config, folder) == config;
}

void make_tokenizer_readable(const std::string& folder) {
  const fs::path path = fs::path(folder) / config_name;
  const ordered_json config = read_object(path), changed = readable(config, folder);
  if (changed != config) write_object(path, changed);
}

void change_tokenizer(const std::string& folder, const TokenizerChanges& changes) {
  const fs::path path = fs::path(folder) / config_name;
  ordered_json config = read_object(path), map = read_object(fs::path(folder) / "special_tokens_map.json");
  if (config.is_null()) config = ordered_json::object();
  const ordered_json before = config, map_before = map;
  const auto set = [&](const char* role, const std::string& token) {
    if (token.empty()) return;
    config[role] = token;
    if (map.is_object()) map[role] = token;
  };
  set("eos_token", changes.eos_token);
  set("pad_token", changes.pad_token);
  if (!changes.chat_template.empty()) {
    config.erase("chat_template");
    for (const char* name : {"chat_template.json", "additional_chat_templates"}) {
      fs::remove_all(fs::path(folder) / name);
    }
    io::write_file_atomically(folder + "/chat_template.jinja", changes.chat_template);
  }
  if (config != before) write_object(path, config);
  if (map != map_before) write_object(fs::path(folder) / "special_tokens_map.json", map);
}

}  // namespace sft::hub
