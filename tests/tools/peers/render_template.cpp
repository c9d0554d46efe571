// SPDX-License-Identifier: Apache-2.0
// Renders chat templates for templates.py. Every line of standard input is a JSON object:
//
//   {"template": TEXT, "context": {...}, "now": SECONDS}
//
// and every line of standard output the result: {"text", "generation", "assistant"} with spans in characters, or
// {"error"}. The context is that of the template if it has "raw": true, else what a tokenizer's apply_chat_template
// takes: "messages", "tools", "documents", "add_generation_prompt" and "variables".

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sft/jinja/chat_template.hpp"
#include "sft/jinja/error.hpp"
#include "sft/jinja/template.hpp"

namespace {

using Json = nlohmann::ordered_json;
using namespace sft::jinja;

Json characters_of(const std::string& text, const std::vector<ByteSpan>& spans) {
  std::vector<std::size_t> index(text.size() + 1, 0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    index[i + 1] = index[i] + ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 ? 1 : 0);
  }
  // index[i] counts the characters that begin before byte i.
  Json list = Json::array();
  for (const ByteSpan& span : spans) list.push_back({index[span.begin], index[span.end]});
  return list;
}

Json render(const Json& job) {
  static std::map<std::string, Template> compiled;
  const auto& source = job.at("template").get_ref<const std::string&>();
  try {
    auto found = compiled.find(source);
    if (found == compiled.end()) found = compiled.emplace(source, Template(source)).first;
    const Json& given = job.at("context");
    Json variables = given.value("variables", Json::object());
    if (given.contains("documents") && !variables.contains("documents")) variables["documents"] = given["documents"];
    const Json context = given.value("raw", false)
                             ? given
                             : make_context(given.at("messages"), given.value("tools", Json()),
                                            given.value("add_generation_prompt", false), variables);
    RenderOptions options;
    if (job.contains("now")) {
      options.now = std::chrono::system_clock::from_time_t(job.at("now").get<std::time_t>());
    }
    const Rendered rendered = found->second.render(context, options);
    Json result = {{"text", rendered.text}, {"generation", characters_of(rendered.text, rendered.generation)}};
    if (context.contains("messages")) {
      result["assistant"] = characters_of(rendered.text, assistant_spans(found->second, context, rendered, options));
    }
    return result;
  } catch (const TemplateError& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << render(Json::parse(line)).dump() << std::endl;
  }
}
