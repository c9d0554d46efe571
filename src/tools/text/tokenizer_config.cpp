// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_config.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <stdexcept>

namespace sft::text {

namespace {

constexpr std::array<const char*, 7> role_names = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                   "pad_token", "cls_token", "mask_token"};

Json parse_object(const std::string& text, const char* file) {
  if (text.empty()) return Json::object();
  try {
    Json json = parse_json(text);
    if (!json.is_object()) throw std::invalid_argument("it is no object");
    return json;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", file, error.what()));
  }
}

/// A token by name or as an object; special either way.
AddedToken special_token_of(const Json& value, const std::vector<AddedToken>& known) {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&token](const AddedToken& each) { return each.content == token.content; });
    if (found != known.end()) token = *found;
  } else {
    token = added_token_of(value);
  }
  token.special = true;
  return token;
}

void read_added(const Json& description, std::vector<AddedToken>& added) {
  if (!description.is_object()) throw std::invalid_argument("\"added_tokens_decoder\" is no object");
  std::map<std::int64_t, AddedToken> by_id;
  for (const auto& [id, token] : description.items()) {
    const bool is_number = !id.empty() && id.size() <= 9 && id.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number) throw std::invalid_argument(fmt::format("\"added_tokens_decoder\" has the id \"{}\"", id));
    by_id[std::stoll(id)] = added_token_of(token);
  }
  for (const auto& [id, token] : by_id) added.push_back(token);
}

void read_roles(const Json& object, TokenizerConfig& config) {
  for (const char* role : role_names) {
    if (has_field(object, role)) config.roles[role] = special_token_of(object[role], config.added);
  }
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!has_field(object, name) || !object[name].is_array()) continue;
    for (const Json& token : object[name]) config.extra_specials.push_back(special_token_of(token, config.added));
  }
}

/// transformers 5 has one class for GPT2Tokenizer and GPT2TokenizerFast.
std::string class_of(const Json& object) {
  std::string name = string_of(object, "tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

std::map<std::string, std::string> default_roles_of(const std::string& tokenizer_class) {
  const std::string end = "<|endoftext|>";
  if (tokenizer_class == "GPT2Tokenizer") return {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}};
  if (tokenizer_class == "Qwen2Tokenizer") return {{"eos_token", end}, {"pad_token", end}, {"unk_token", end}};
  if (tokenizer_class == "LlamaTokenizer" || tokenizer_class == "CodeLlamaTokenizer") {
    return {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  }
  return {};
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::string& tokenizer_config_json,
                                      const std::string& special_tokens_map_json) {
  TokenizerConfig config;
  const Json object = parse_object(tokenizer_config_json, "tokenizer_config.json");
  try {
    if (has_field(object, "added_tokens_decoder")) read_added(object["added_tokens_decoder"], config.added);
    read_roles(object, config);
    const std::string tokenizer_class = class_of(object);
    config.default_roles = default_roles_of(tokenizer_class);
    config.begins_with_bos = tokenizer_class == "CodeLlamaTokenizer";
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("tokenizer_config.json: ") + error.what());
  }
  // The older of the two files; it says nothing new where the newer one lists the tokens.
  if (config.added.empty()) {
    const Json roles = parse_object(special_tokens_map_json, "special_tokens_map.json");
    try {
      read_roles(roles, config);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string("special_tokens_map.json: ") + error.what());
    }
  }
  return config;
}

}  // namespace sft::text
