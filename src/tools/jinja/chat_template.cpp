// SPDX-License-Identifier: Apache-2.0
#include "sft/jinja/chat_template.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "sft/jinja/error.hpp"

namespace sft::jinja {

namespace {

using Json = nlohmann::ordered_json;

/// The first of the names for a message's reasoning that is set.
const Json* reasoning_of(const Json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found != message.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

Json normalize_message(const Json& message) {
  if (!message.is_object()) {
    throw TemplateError("a message is no object", fmt::format("it is of the type {}", message.type_name()),
                        "give messages as objects with a role and content");
  }
  Json normalized = Json::object();
  auto& members = normalized.get_ref<Json::object_t&>();  // by keys that differ: no need to look for them
  const Json* reasoning = reasoning_of(message);
  if (reasoning != nullptr && !message.contains("thinking")) members.emplace_back("thinking", *reasoning);
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) members.emplace_back(key, value);
  }
  if (reasoning != nullptr) normalized["reasoning_content"] = *reasoning;
  return normalized;
}

}  // namespace

Json make_context(const Json& messages, const Json& tools, bool add_generation_prompt, const Json& variables) {
  if (!messages.is_array() || messages.empty()) {
    throw TemplateError("a conversation has no messages", "a chat template needs at least one", "leave the record out");
  }
  Json context = Json::object();
  context["messages"] = Json::array();
  for (const Json& message : messages) context["messages"].push_back(normalize_message(message));
  context["tools"] = tools;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = add_generation_prompt;
  for (const auto& [name, value] : variables.items()) context[name] = value;
  return context;
}

}  // namespace sft::jinja
