// SPDX-License-Identifier: Apache-2.0
#include "text/text_steps.hpp"

#include <fmt/core.h>
#include <stdexcept>
#include <string>

namespace sft::text {

namespace {

void wrap(PostProcessor& inner, const PostProcessor& outer) {
  inner.before.insert(inner.before.begin(), outer.before.begin(), outer.before.end());
  inner.after.insert(inner.after.end(), outer.after.begin(), outer.after.end());
}

PostProcessor of_template(const Json& description) {
  PostProcessor processor;
  bool is_behind_text = false;
  for (const Json& piece : array_of(description, "single")) {
    if (has_field(piece, "Sequence")) {
      if (is_behind_text) throw std::invalid_argument("a template has the text twice");
      is_behind_text = true;
      continue;
    }
    const std::string name = string_of(field_of(piece, "SpecialToken"), "id");
    const Json& token = field_of(field_of(description, "special_tokens"), name.c_str());
    for (const Json& id : array_of(token, "ids")) {
      (is_behind_text ? processor.after : processor.before).push_back(number_of(id, "an id of a template"));
    }
  }
  if (!is_behind_text) throw std::invalid_argument("a template has no place for the text");
  return processor;
}

/// ["</s>", 2]
TokenId id_of_pair(const Json& description, const char* name) {
  const Json& pair = array_of(description, name);
  if (pair.size() != 2) throw std::invalid_argument(fmt::format("\"{}\" is no token with its id", name));
  return number_of(pair[1], name);
}

}  // namespace

PostProcessor make_post_processor(const Json& description) {
  if (description.is_null()) return {};
  const std::string type = string_of(description, "type");
  if (type == "ByteLevel") return {};  // it moves offsets alone
  if (type == "TemplateProcessing") return of_template(description);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{id_of_pair(description, "cls")}, {id_of_pair(description, "sep")}};
  }
  if (type == "Sequence") {
    PostProcessor all;
    for (const Json& part : array_of(description, "processors")) wrap(all, make_post_processor(part));
    return all;
  }
  throw std::invalid_argument(fmt::format("the post-processor {} is not supported", type));
}

}  // namespace sft::text
