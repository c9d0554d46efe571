// SPDX-License-Identifier: Apache-2.0
#pragma once
// Short ways to render a template and to show spans of its text.

#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sft/jinja/error.hpp"
#include "sft/jinja/template.hpp"

namespace sft::test {

using Json = nlohmann::ordered_json;

inline std::string render(const std::string& source, const Json& context = Json::object()) {
  return jinja::Template(source).render(context).text;
}

/// The message of the TemplateError that `action` throws; "" if it throws none.
inline std::string template_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const jinja::TemplateError& error) {
    return error.what();
  }
  return "";
}

/// The message that a template or its rendering is refused with; "" if it is not.
inline std::string refusal(const std::string& source, const Json& context = Json::object(),
                           const jinja::RenderOptions& options = {}) {
  return template_error_of([&] { (void)jinja::Template(source).render(context, options); });
}

/// Whether `text` holds all of `parts`.
inline bool mentions(const std::string& text, const std::initializer_list<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) return false;
  }
  return true;
}

/// The text with [brackets] around the spans.
inline std::string bracket(const std::string& text, const std::vector<jinja::ByteSpan>& spans) {
  std::string shown;
  std::size_t done = 0;
  for (const jinja::ByteSpan& span : spans) {
    shown += text.substr(done, span.begin - done) + "[" + text.substr(span.begin, span.end - span.begin) + "]";
    done = span.end;
  }
  return shown + text.substr(done);
}

}  // namespace sft::test
