// SPDX-License-Identifier: Apache-2.0
#pragma once
// Short ways to render a template and to show spans of its text.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sft/jinja/template.hpp"
#include "support/error_text.hpp"

namespace sft::test {

using Json = nlohmann::ordered_json;

inline std::string render(const std::string& source, const Json& context = Json::object()) {
  return jinja::Template(source).render(context).text;
}

/// The message of the data Error; "" if there is none.
inline std::string refusal(const std::string& source, const Json& context = Json::object(),
                           const jinja::RenderOptions& options = {}) {
  return data_error_of([&] { (void)jinja::Template(source).render(context, options); });
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
