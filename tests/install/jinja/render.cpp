// SPDX-License-Identifier: Apache-2.0
// A program of another project: renders a template with the library of chat templates alone.

#include <iostream>
#include <nlohmann/json.hpp>

#include "sft/jinja/chat_template.hpp"
#include "sft/jinja/error.hpp"

int main() {
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "Grüße"}}};
  const auto context = sft::jinja::make_context(messages, nullptr, false, nlohmann::ordered_json::object());
  const sft::jinja::Template shout("{% for m in messages %}{{ m.content|upper }}{% endfor %}");
  std::cout << shout.render(context).text << '\n';
  try {
    sft::jinja::Template("{% include 'x' %}");
  } catch (const sft::jinja::TemplateError& error) {
    std::cout << error.what() << '\n';
  }
}
