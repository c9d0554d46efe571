// SPDX-License-Identifier: Apache-2.0
#include "prepare/conversation.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "prepare/message_weight.hpp"
#include "prepare/other_forms.hpp"
#include "prepare/sharegpt.hpp"

namespace sft::prepare {

namespace {

constexpr std::size_t max_template_kwargs = 1000;

/// A content that is a list of parts of text, as one text; other contents as they are.
Json text_of_parts(const Json& content, const std::string& where) {
  if (!content.is_array()) return content;
  std::string text;
  for (const Json& part : content) {
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
    } else if (part.is_object() && part.value("type", Json("text")) == "text") {
      text += string_of(part, "text", "a part of the content of " + where);
    } else {
      const std::string type = part.is_object() ? part["type"].dump(-1, ' ', false, Json::error_handler_t::replace)
                                                : std::string(part.type_name());
      refuse_record(
          fmt::format("the content of {} has a part of type {}, and only text can be trained on", where, type));
    }
  }
  return text;
}

/// Whether a content is a list as templates that read lists know it.
bool is_list_of_text_parts(const Json& content) {
  return content.is_array() && !content.empty() && std::ranges::all_of(content, [](const Json& part) {
           return part.is_object() && part.value("type", Json()) == "text";
         });
}

void add_message(Conversation& chat, Json message, const std::string& where, RecordCensus& census) {
  chat.weights.push_back(take_weight(message, where));
  chat.text_parts.emplace_back();
  if (const auto content = message.find("content"); content != message.end()) {
    if (is_list_of_text_parts(*content)) chat.text_parts.back() = *content;
    *content = text_of_parts(*content, where);
    if (!content->is_string() && !content->is_null()) {
      refuse_record(fmt::format("'content' of {} is {}, not a string", where, content->type_name()));
    }
  }
  if (const auto calls = message.find("tool_calls"); calls != message.end() && calls->is_string()) {
    Json list = list_in_text(*calls);
    if (list.is_null() && !is_empty(*calls) && *calls != "[]") {
      refuse_record(fmt::format("'tool_calls' of {} is string, not a list of calls", where));
    }
    *calls = std::move(list);
  }
  census.roles.add(string_of(message, "role", where));
  chat.messages.push_back(std::move(message));
}

const Json& list_of(const Json& record, const char* key) {
  const Json& list = record[key];
  if (!list.is_array()) {
    refuse_record(fmt::format("'{}' is {}, not a list of messages", key, list.type_name()));
  }
  if (list.empty()) refuse_record(fmt::format("'{}' is an empty list", key));
  return list;
}

/// Adds a message, or a turn of ShareGPT where it has no role.
void add_turn(Conversation& chat, const Json& turn, const std::string& where, RecordCensus& census) {
  if (has_value(turn, "role") || !has_value(turn, "from")) return add_message(chat, turn, where, census);
  Json message = message_of_turn(turn, where, census);
  chat.has_turns_of_calls = chat.has_turns_of_calls || is_turn_of_calls(turn, message);
  add_message(chat, std::move(message), where, census);
}

void add_messages(Conversation& chat, const Json& record, const char* key, RecordCensus& census) {
  std::size_t number = 0;
  for (const Json& entry : list_of(record, key)) {
    const std::string where = fmt::format("message {} of '{}'", ++number, key);
    check_object(entry, where);
    add_turn(chat, entry, where, census);
  }
}

/// `system` of the record becomes the first message, before `first`, the first turn of its list.
void add_system(Conversation& chat, const Json& record, const Json& first, RecordCensus& census) {
  if (!has_value(record, "system")) return;
  const Json system = text_of_parts(record["system"], "the record's 'system'");
  if (!system.is_string()) {
    refuse_record(fmt::format("'system' of the record is {}, not a string", system.type_name()));
  }
  if (is_empty(system)) return;
  if (const std::string speaker = sharegpt_role(speaker_of(first)); speaker == "system" || speaker == "developer") {
    for (const char* key : {"value", "content"}) {
      if (has_value(first, key) && text_of_parts(first[key], "the first message") == system) return;
    }
    refuse_unshown("system", fmt::format("it has 'system', and a first message of {} with other words", speaker));
  }
  add_message(chat, {{"role", "system"}, {"content", system}}, "the record", census);
}

/// NeMo's `mask` of the record names who is not trained on, and with it the system message is not. `speakers` are those
/// of the last messages.
void apply_mask(Conversation& chat, const Json& record, const std::vector<std::string>& speakers,
                RecordCensus& census) {
  if (!has_value(record, "mask")) return;
  const Json& mask = record["mask"];
  const auto is_masked = [&mask](const std::string& speaker) {
    return mask == speaker || (mask.is_array() && std::ranges::find(mask, Json(speaker)) != mask.end());
  };
  if (std::ranges::none_of(speakers, is_masked)) return census.ignored_fields.add("mask");
  const std::size_t num_before = chat.weights.size() - speakers.size();
  for (std::size_t m = 0; m < chat.weights.size(); ++m) {
    const bool is_system = chat.messages[m]["role"] == "system";
    if (is_system || (m >= num_before && is_masked(speakers[m - num_before]))) chat.weights[m] = 0.0f;
  }
}

/// `tools` may be JSON in a string, as tables of one type for a column have it.
void add_template_input(Conversation& chat, const Json& record, RecordCensus& census) {
  if (has_value(record, "tools")) {
    chat.tools = record["tools"];
    if (chat.tools.is_string()) {
      try {
        chat.tools = parse_json(chat.tools.get<std::string>());
      } catch (const std::invalid_argument& reason) {
        refuse_record(std::string("'tools' of the record is a string, and ") + reason.what());
      }
    }
    if (!chat.tools.is_null() && !chat.tools.is_array()) {
      refuse_record(fmt::format("'tools' of the record is {}, not a list", chat.tools.type_name()));
    }
    if (chat.tools.is_array() && chat.tools.empty()) ++census.num_empty_tool_lists;
  }
  if (has_value(record, "chat_template_kwargs")) {
    chat.template_kwargs = record["chat_template_kwargs"];
    if (!chat.template_kwargs.is_object()) {
      refuse_record(
          fmt::format("'chat_template_kwargs' of the record is {}, not an object", chat.template_kwargs.type_name()));
    }
    if (chat.template_kwargs.size() > max_template_kwargs) {
      refuse_record(
          fmt::format("'chat_template_kwargs' of the record has more than {} variables", max_template_kwargs));
    }
    if (chat.template_kwargs.contains("chat_template")) {
      refuse_record("'chat_template_kwargs' names a chat_template, and all records share one: --chat_template_path");
    }
    if (chat.template_kwargs.contains("messages")) {
      refuse_record("'chat_template_kwargs' names messages, and the template is given those of the record");
    }
    if (chat.has_prompt && chat.template_kwargs.contains("add_generation_prompt")) {
      refuse_record("'chat_template_kwargs' of a prompt and completion sets add_generation_prompt, which they decide");
    }
  }
}

std::vector<std::string> speakers_of(const Json& list) {
  std::vector<std::string> speakers;
  for (const Json& turn : list) speakers.push_back(speaker_of(turn));
  return speakers;
}

}  // namespace

Conversation chat_of_messages(const Json& record, RecordCensus& census) {
  Conversation chat;
  const Json& list = list_of(record, "messages");
  add_system(chat, record, list.front(), census);
  add_messages(chat, record, "messages", census);
  apply_mask(chat, record, speakers_of(list), census);
  add_template_input(chat, record, census);
  return chat;
}

Conversation chat_of_pair(const Json& record, RecordCensus& census) {
  Conversation chat;
  chat.has_prompt = true;
  const Json &prompt = record["prompt"], &completion = record["completion"];
  add_system(chat, record, prompt.is_string() ? Json() : list_of(record, "prompt").front(), census);
  if (prompt.is_string()) {
    add_message(chat, {{"role", "user"}, {"content", prompt}}, "the record", census);
  } else {
    add_messages(chat, record, "prompt", census);
  }
  chat.num_prompt_messages = chat.messages.size();
  if (completion.is_string()) {
    add_message(chat, {{"role", "assistant"}, {"content", completion}}, "the record", census);
  } else if (completion.is_object()) {
    add_turn(chat, completion, "'completion'", census);
  } else {
    add_messages(chat, record, "completion", census);
  }
  add_template_input(chat, record, census);
  return chat;
}

Conversation chat_of_sharegpt(const Json& record, RecordCensus& census) {
  Conversation chat;
  const Json& given = list_of(record, "conversations");
  const Json named = named_turns(given, census);
  const Json& list = named.is_null() ? given : named;
  add_system(chat, record, list.front(), census);
  std::size_t number = 0;
  for (const Json& turn : list) {
    const std::string where = fmt::format("message {} of 'conversations'", ++number);
    Json message = message_of_turn(turn, where, census);
    chat.has_turns_of_calls = chat.has_turns_of_calls || is_turn_of_calls(turn, message);
    add_message(chat, std::move(message), where, census);
  }
  apply_mask(chat, record, speakers_of(list), census);
  add_template_input(chat, record, census);
  return chat;
}

Conversation chat_of_alpaca(const Json& record, RecordCensus& census) {
  Conversation chat;
  chat.has_prompt = true;
  add_system(chat, record, Json(), census);
  const auto say = [&](const char* role, const std::string& content) {
    add_message(chat, {{"role", role}, {"content", content}}, "the record", census);
  };
  if (has_value(record, "history")) {
    const Json& history = record["history"];
    const auto is_pair = [](const Json& turn) {
      return turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
    };
    if (!history.is_array() || !std::ranges::all_of(history, is_pair)) {
      refuse_record("'history' of the record is no list of pairs of strings");
    }
    for (const Json& turn : history) {
      say("user", turn[0].get_ref<const std::string&>());
      say("assistant", turn[1].get_ref<const std::string&>());
    }
  }
  std::string prompt = string_of(record, "instruction", "the record");
  if (has_value(record, "input")) {
    const std::string& input = string_of(record, "input", "the record");
    if (!input.empty()) prompt += "\n" + input;
  }
  say("user", prompt);
  chat.num_prompt_messages = chat.messages.size();
  say("assistant", string_of(record, "output", "the record"));
  add_template_input(chat, record, census);
  return chat;
}

}  // namespace sft::prepare
