// SPDX-License-Identifier: Apache-2.0
#include "chat_markup.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/jinja/chat_template.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

namespace {

constexpr const char* other_template = "correct it, or give another one with --chat_template_path";

struct TemplateText {
  std::string source, file;
};

/// `chat_template` of a tokenizer_config.json: a text, or a list of named ones.
std::optional<TemplateText> template_in(const std::string& file) {
  const nlohmann::json config = nlohmann::json::parse(io::read_file(file), nullptr, false);
  if (!config.is_object() || !config.contains("chat_template")) return std::nullopt;
  const nlohmann::json& value = config["chat_template"];
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return TemplateText{value.get<std::string>(), file};
  const auto is_default = [](const nlohmann::json& entry) {
    return entry.is_object() && entry.value("name", nlohmann::json()) == "default" &&
           entry.value("template", nlohmann::json()).is_string();
  };
  if (value.is_array()) {
    const auto found = std::ranges::find_if(value, is_default);
    if (found != value.end()) return TemplateText{(*found)["template"].get<std::string>(), file};
  }
  throw_data_error("cannot use the chat template of " + file, "it is neither a text nor a list with one named default",
                   other_template);
}

std::optional<TemplateText> find_template(const std::string& path, const std::string& folder) {
  if (!path.empty()) return TemplateText{io::read_file(path), path};
  std::error_code ignored;
  if (const std::string file = (fs::path(folder) / "chat_template.jinja").string(); fs::exists(file, ignored)) {
    return TemplateText{io::read_file(file), file};
  }
  const std::string file = (fs::path(folder) / "tokenizer_config.json").string();
  return fs::exists(file, ignored) ? template_in(file) : std::nullopt;
}

jinja::Template compile(const TemplateText& text) {
  try {
    return jinja::Template(text.source);
  } catch (const Error& error) {
    throw_data_error("cannot use the chat template of " + text.file, error.what(), other_template);
  }
}

/// bos_token ... as templates name them.
nlohmann::ordered_json named_tokens(const text::Tokenizer& tokenizer) {
  const text::SpecialTokens& specials = tokenizer.specials();
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  const auto add = [&](const char* name, const std::optional<text::TokenId>& id) {
    if (id) variables[name] = tokenizer.token_of(*id);
  };
  add("bos_token", specials.bos);
  add("eos_token", specials.eos);
  add("pad_token", specials.pad);
  add("unk_token", specials.unk);
  return variables;
}

}  // namespace

ChatMarkup::ChatMarkup(const text::Tokenizer& tokenizer, const std::string& path) : tokenizer_(tokenizer) {
  if (const std::optional<TemplateText> text = find_template(path, tokenizer.name())) {
    template_.emplace(compile(*text));
  } else if (!tokenizer.id_of("<|im_start|>") || !tokenizer.id_of("<|im_end|>")) {
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
  return template_->render(jinja::make_context(list, nullptr, nullptr, asks, named_tokens(tokenizer_))).text;
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
