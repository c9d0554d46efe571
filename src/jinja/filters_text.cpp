// SPDX-License-Identifier: Apache-2.0
// Filters of strings.

#include <string>

#include "jinja/arguments.hpp"
#include "jinja/filters.hpp"
#include "jinja/json.hpp"
#include "jinja/operators.hpp"
#include "jinja/printing.hpp"
#include "jinja/string_format.hpp"
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

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '~';
}

std::string quote_url(std::string_view bytes, bool is_query) {
  static constexpr std::string_view digits = "0123456789ABCDEF";
  std::string quoted;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(c) || (c == '/' && !is_query)) {
      quoted.push_back(c);
    } else if (c == ' ' && is_query) {
      quoted.push_back('+');
    } else {
      quoted.push_back('%');
      quoted.push_back(digits[byte >> 4]);
      quoted.push_back(digits[byte & 15]);
    }
  }
  return quoted;
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

Value filter_center(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("center", arguments, {"width"});
  return pad(evaluator.heap(), to_text(evaluator, input), parameters.integer(0, 80), " ", Side::both);
}

Value filter_escape(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("escape", arguments, {});
  return escape_html(evaluator.heap(), to_text(evaluator, input));
}

Value filter_forceescape(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("forceescape", arguments, {});
  Heap& heap = evaluator.heap();
  return escape_html(heap, with_markup(heap, to_text(evaluator, input), false));
}

Value filter_format(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const TextRef text = to_text(evaluator, input);
  if (!arguments.named.empty()) {
    if (!arguments.positional.empty()) throw Failure("can't handle positional and keyword arguments at the same time");
    Dict::Entries entries;
    for (const auto& [name, value] : arguments.named) entries.emplace_back(make_text(&evaluator.heap(), name), value);
    return format_percent(evaluator, text, std::make_shared<const Dict>(&evaluator.heap(), std::move(entries)));
  }
  return format_percent(evaluator, text, evaluator.make_list(List::Kind::tuple, arguments.positional));
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
  const std::vector<TextRef> lines = split_lines(heap, whole.take(), false);
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

Value filter_truncate(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Heap& heap = evaluator.heap();
  const TextRef text = require_text(input, "truncate");
  const std::int64_t length = parameters.integer(0, 255);
  const TextRef end = parameters[2] == nullptr ? make_text(&heap, "...") : require_text(*parameters[2], "truncate");
  const std::int64_t leeway = parameters.has(3) ? parameters.integer(3, 5) : 5;
  const std::int64_t kept = length - count_characters(end->bytes);
  if (kept < 0) throw Failure("truncate() needs a length that holds its end");
  if (leeway < 0) throw Failure("truncate() needs a leeway that is not negative");
  if (length > INT64_MAX - leeway || count_characters(text->bytes) <= length + leeway) return text;
  TextRef cut = cut_text(&heap, text, 0, position_of_character(text->bytes, kept));
  if (!parameters.truth(1, false)) {
    if (const std::size_t blank = cut->bytes.rfind(' '); blank != std::string::npos)
      cut = cut_text(&heap, cut, 0, blank);
  }
  TextBuilder builder(&heap);
  builder.append(*cut);
  builder.append(*end);
  return builder.take();
}

Value filter_urlencode(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("urlencode", arguments, {});
  Heap& heap = evaluator.heap();
  if (input.text() != nullptr || as_number(input) || input.is_none()) {
    const TextRef text = to_text(evaluator, input);
    return make_text(&heap, quote_url(text->bytes, false), tag_at(*text, 0));
  }
  if (input.dict() == nullptr) fail_unsupported("urlencode of " + type_name(input));
  TextBuilder builder(&heap);
  for (const auto& [key, value] : input.dict()->entries) {
    if (builder.size() > 0) builder.append("&");
    builder.append(quote_url(to_text(evaluator, key)->bytes, true) + "=" +
                   quote_url(to_text(evaluator, value)->bytes, true));
  }
  return builder.take();
}

Value filter_wordcount(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("wordcount", arguments, {});
  const TextRef text = to_text(evaluator, input);
  evaluator.heap().step(text->bytes.size() / 4);
  std::int64_t count = 0;
  bool is_inside = false;
  for (std::size_t position = 0; position < text->bytes.size();) {
    const bool is_part = is_word(next_code_point(text->bytes, position));
    if (is_part && !is_inside) ++count;
    is_inside = is_part;
  }
  return count;
}

}  // namespace sft::jinja
