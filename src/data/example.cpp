#include "sft/data/example.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "sft/text/chat.hpp"

namespace sft::data {

namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

Json parse(const std::string& record) {
  try {
    return Json::parse(record);
  } catch (const Json::parse_error& error) {
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at ...: reason"
    refuse("not JSON: " + what.substr(what.find("] ") + 2));
  }
}

const std::string& string_of(const Json& record, const char* key, const std::string& where) {
  if (!record.contains(key)) refuse(where + " has no '" + key + "'");
  const Json& value = record[key];
  if (!value.is_string())
    refuse("'" + std::string(key) + "' of " + where + " is " + value.type_name() + ", not a string");
  return value.get_ref<const std::string&>();
}

/// What the chat markup cannot show must not vanish: a turn that only calls a tool would teach an empty answer.
void refuse_tools(const Json& object, const char* key, const std::string& where) {
  if (!object.contains(key) || object[key].is_null() || object[key].empty()) return;
  refuse(where + " has '" + key + "', and the byte tokenizer's chat markup has no form for tools");
}

std::vector<text::Message> messages_of(const Json& list, const std::string& key) {
  if (!list.is_array()) refuse("'" + key + "' is " + list.type_name() + ", not a list of messages");
  if (list.empty()) refuse("'" + key + "' is an empty list");
  std::vector<text::Message> messages;
  for (const Json& entry : list) {
    const std::string where = "message " + std::to_string(messages.size() + 1) + " of '" + key + "'";
    if (!entry.is_object()) refuse(where + " is " + entry.type_name() + ", not an object");
    refuse_tools(entry, "tool_calls", where);
    messages.push_back({.role = string_of(entry, "role", where), .content = string_of(entry, "content", where)});
  }
  return messages;
}

/// Tokens from `begin` on are trained on.
Document trained_from(std::vector<text::TokenId> tokens, std::size_t begin) {
  Document document{.tokens = std::move(tokens), .loss_weight = {}};
  document.loss_weight.assign(document.tokens.size(), 1.0f);
  std::fill_n(document.loss_weight.begin(), begin, 0.0f);
  return document;
}

Document from_chat(const std::vector<text::Message>& messages, std::size_t num_prompt_messages,
                   const text::Tokenizer& tokenizer, const ExampleOptions& options) {
  text::RenderedChat chat = text::render_chatml(messages, tokenizer);
  const bool skip_prompt = options.completion_only_loss && num_prompt_messages > 0;
  const auto begin = skip_prompt ? static_cast<std::size_t>(chat.messages[num_prompt_messages].content_begin) : 0;
  Document document = trained_from(std::move(chat.tokens), begin);
  if (!options.assistant_only_loss) return document;
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const text::MessageSpan& span = chat.messages[m];
    const auto silence = [&document](std::int64_t from, std::int64_t to) {
      std::fill(document.loss_weight.begin() + from, document.loss_weight.begin() + to, 0.0f);
    };
    const bool assistant = messages[m].role == "assistant";
    silence(span.begin, assistant ? span.content_begin : span.end);
    silence(span.turn_end, span.end);
  }
  return document;
}

Document from_strings(const std::string& prompt, const std::string& completion, const text::Tokenizer& tokenizer,
                      const ExampleOptions& options) {
  const std::vector<text::TokenId> prompt_tokens = tokenizer.encode(prompt);
  std::vector<text::TokenId> tokens = tokenizer.encode(prompt + completion);
  // A tokenizer may merge across the seam: the completion begins where the two part.
  const auto seam = std::mismatch(prompt_tokens.begin(), prompt_tokens.end(), tokens.begin(), tokens.end()).second;
  const auto begin = static_cast<std::size_t>(seam - tokens.begin());
  tokens.push_back(tokenizer.specials().eos);
  return trained_from(std::move(tokens), options.completion_only_loss ? begin : 0);
}

void refuse_assistant_only(const ExampleOptions& options, const char* shape) {
  if (options.assistant_only_loss) refuse(std::string("assistant_only_loss needs messages with roles, and ") + shape);
}

}  // namespace

Document make_document(const std::string& record, const text::Tokenizer& tokenizer, const ExampleOptions& options) {
  const Json json = parse(record);
  if (!json.is_object()) refuse(std::string("the record is ") + json.type_name() + ", not an object");
  if (json.contains("prompt") && json.contains("completion")) {
    if (json["prompt"].is_array()) {
      std::vector<text::Message> messages = messages_of(json["prompt"], "prompt");
      const std::size_t num_prompt_messages = messages.size();
      for (text::Message& message : messages_of(json["completion"], "completion")) {
        messages.push_back(std::move(message));
      }
      return from_chat(messages, num_prompt_messages, tokenizer, options);
    }
    refuse_assistant_only(options, "prompt and completion are plain strings");
    return from_strings(string_of(json, "prompt", "the record"), string_of(json, "completion", "the record"), tokenizer,
                        options);
  }
  refuse_tools(json, "tools", "the record");
  if (json.contains("messages")) return from_chat(messages_of(json["messages"], "messages"), 0, tokenizer, options);
  if (json.contains("text")) {
    refuse_assistant_only(options, "'text' has none");
    std::vector<text::TokenId> tokens = tokenizer.encode(string_of(json, "text", "the record"));
    tokens.push_back(tokenizer.specials().eos);
    return trained_from(std::move(tokens), 0);
  }
  std::string keys;
  for (const auto& [key, value] : json.items()) keys += (keys.empty() ? "'" : ", '") + key + "'";
  refuse("it has neither 'messages', nor 'prompt' and 'completion', nor 'text', but " +
         (keys.empty() ? "no keys" : keys));
}

}  // namespace sft::data
