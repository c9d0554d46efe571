// SPDX-License-Identifier: Apache-2.0
// Filters of strings.

#include <string>

#include "jinja/arguments.hpp"
#include "jinja/filters.hpp"
#include "jinja/json.hpp"
#include "jinja/strings.hpp"

namespace sft::jinja {

namespace {

/// The same bytes, taken for finished HTML or not.
TextRef with_markup(Heap& heap, const TextRef& text, bool is_markup) {
  if (text->is_markup == is_markup) return text;
  TextBuilder builder(&heap);
  builder.append(*text);
  return builder.take(is_markup);
}

/// The characters before which the filter `title` begins a word.
bool separates_words(CodePoint c) {
  return is_space(c) ||
         (c > 0 && c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
}

std::string indent_of(const Value& value) {
  if (const Text* text = value.text()) return text->bytes;
  return std::string(static_cast<std::size_t>(
                         std::max<std::int64_t>(0, std::min<std::int64_t>(1000, require_integer(value, "indent")))),
                     ' ');
}

}  // namespace

Value filter_capitalize(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("capitalize", arguments, {});
  return capitalize(evaluator.heap(), to_text(evaluator, input));
}

Value filter_indent(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("indent", arguments, {"width", "first", "blank"});
  Heap& heap = evaluator.heap();
  const TextRef text = require_text(input, "indent");
  const std::string indent = parameters[0] == nullptr ? "    " : indent_of(*parameters[0]);
  const bool indents_blank = parameters.truth(2, false);
  TextBuilder whole(&heap);
  whole.append(*text);
  whole.append("\n");
  const std::vector<TextRef> lines = split_lines(heap, whole.take());
  TextBuilder builder(&heap);
  if (parameters.truth(1, false)) builder.append(indent);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) builder.append("\n");
    if (i > 0 && (indents_blank || !lines[i]->bytes.empty())) builder.append(indent);
    builder.append(*lines[i]);
  }
  return builder.take(text->is_markup);
}

Value filter_lower(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("lower", arguments, {});
  return change_case(evaluator.heap(), to_text(evaluator, input), Case::lower);
}

Value filter_upper(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("upper", arguments, {});
  return change_case(evaluator.heap(), to_text(evaluator, input), Case::upper);
}

Value filter_replace(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("replace", arguments, {"old", "new", "count"}, 2);
  Heap& heap = evaluator.heap();
  const TextRef text = with_markup(heap, to_text(evaluator, input), false);
  const std::int64_t count = parameters.has(2) ? parameters.integer(2, -1) : -1;
  return replace(heap, text, *to_text(evaluator, *parameters[0]), *to_text(evaluator, *parameters[1]), count);
}

Value filter_safe(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("safe", arguments, {});
  return with_markup(evaluator.heap(), to_text(evaluator, input), true);
}

Value filter_string(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("string", arguments, {});
  return to_text(evaluator, input);
}

Value filter_title(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("title", arguments, {});
  Heap& heap = evaluator.heap();
  const TextRef text = to_text(evaluator, input);
  const std::string_view bytes = text->bytes;
  TextBuilder builder(&heap);
  bool begins = true;
  for (std::size_t position = 0; position < bytes.size();) {
    const std::size_t begin = position;
    const CodePoint character = next_code_point(bytes, position);
    const Case to = begins ? Case::upper : Case::lower;
    builder.append(map_case(bytes.substr(begin, position - begin), to), tag_at(*text, begin));
    begins = separates_words(character);
  }
  return builder.take();
}

Value filter_tojson(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensures_ascii = parameters.truth(0, false);
  style.sorts_keys = parameters.truth(3, false);
  if (parameters.has(1)) {
    style.has_indent = true;
    style.indent = indent_of(*parameters[1]);
    style.item_separator = ",";
  }
  if (parameters.has(2)) {
    const std::vector<Value> separators = items_of(evaluator.heap(), *parameters[2]);
    if (separators.size() != 2) throw Failure("tojson() needs two separators");
    style.item_separator = require_text(separators[0], "a separator")->bytes;
    style.key_separator = require_text(separators[1], "a separator")->bytes;
  }
  return to_json(evaluator.heap(), input, style);
}

Value filter_trim(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("trim", arguments, {"chars"});
  const Text* characters = parameters.has(0) ? require_text(*parameters[0], "trim").get() : nullptr;
  return strip(evaluator.heap(), to_text(evaluator, input), characters);
}

}  // namespace sft::jinja
