// SPDX-License-Identifier: Apache-2.0
// The methods of strings: Python's str.

#include <algorithm>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/evaluator.hpp"
#include "jinja/methods.hpp"
#include "jinja/operators.hpp"
#include "jinja/printing.hpp"
#include "jinja/string_format.hpp"
#include "jinja/strings.hpp"

namespace sft::jinja {

namespace {

const TextRef& self_text(const Value& self) { return *self.get<TextRef>(); }

/// A string argument of a method; as HTML if the method's string is.
TextRef text_argument(Evaluator& evaluator, const Value& self, const Value& argument) {
  const TextRef& text = require_text(argument, "a string method");
  return self_text(self)->is_markup ? escape_html(evaluator.heap(), text) : text;
}

template <Side side>
Value strip_side(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("strip", arguments, {"chars"});
  const Text* characters = parameters.has(0) ? require_text(*parameters[0], "strip()").get() : nullptr;
  return strip(evaluator.heap(), self_text(self), characters, side);
}

template <Case to>
Value to_case(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("the method", arguments, {});
  return change_case(evaluator.heap(), self_text(self), to);
}

Value call_capitalize(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("capitalize", arguments, {});
  return capitalize(evaluator.heap(), self_text(self));
}

Value call_title(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("title", arguments, {});
  return title(evaluator.heap(), self_text(self));
}

Value call_swapcase(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("swapcase", arguments, {});
  const Text& text = *self_text(self);
  const std::string_view bytes = text.bytes;
  TextBuilder builder(&evaluator.heap());
  for (std::size_t position = 0; position < bytes.size();) {
    const std::size_t begin = position;
    const bool is_raised = is_upper(next_code_point(bytes, position));
    builder.append(map_case(bytes.substr(begin, position - begin), is_raised ? Case::lower : Case::upper),
                   tag_at(text, begin));
  }
  return builder.take(text.is_markup);
}

template <bool from_right>
Value call_split(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("split", arguments, {"sep", "maxsplit"});
  const Text* separator = parameters.has(0) ? require_text(*parameters[0], "split()").get() : nullptr;
  std::vector<Value> parts;
  for (TextRef& part : split(evaluator.heap(), self_text(self), separator, parameters.integer(1, -1), from_right)) {
    parts.emplace_back(std::move(part));
  }
  return evaluator.make_list(List::Kind::list, std::move(parts));
}

Value call_splitlines(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("splitlines", arguments, {"keepends"});
  std::vector<Value> lines;
  for (TextRef& line : split_lines(evaluator.heap(), self_text(self), parameters.truth(0, false)))
    lines.emplace_back(std::move(line));
  return evaluator.make_list(List::Kind::list, std::move(lines));
}

template <bool from_right>
Value call_partition(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("partition", arguments, {"sep"}, 1);
  const TextRef& separator = require_text(*parameters[0], "partition()");
  const TextRef nothing = make_text(&evaluator.heap(), "", {}, self_text(self)->is_markup);
  const std::vector<TextRef> parts = split(evaluator.heap(), self_text(self), separator.get(), 1, from_right);
  std::vector<Value> items = {parts[0], nothing, nothing};
  if (parts.size() == 2) items = {parts[0], separator, parts[1]};
  if (parts.size() == 1 && from_right) items = {nothing, nothing, parts[0]};
  return evaluator.make_list(List::Kind::tuple, std::move(items));
}

/// The bytes between the optional bounds `start` and `end` of a method; nothing if start is behind the end.
std::optional<ByteSpan> bounds_of(const std::string& bytes, const Parameters& parameters, std::size_t first) {
  const std::int64_t length = count_characters(bytes);
  const auto bound = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t index = parameters.has(i) ? parameters.integer(i, 0) : otherwise;
    return index < 0 ? std::max<std::int64_t>(0, index + length) : index;
  };
  const std::int64_t start = bound(first, 0), stop = std::min(bound(first + 1, length), length);
  if (start > stop) return std::nullopt;
  return ByteSpan{position_of_character(bytes, start), position_of_character(bytes, stop)};
}

template <bool at_end>
Value call_affix(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters(at_end ? "endswith" : "startswith", arguments, {"affix", "start", "end"}, 1);
  const std::string& bytes = self_text(self)->bytes;
  std::vector<Value> affixes = {*parameters[0]};
  const List* list = parameters[0]->list();
  if (list != nullptr && list->kind == List::Kind::tuple) affixes = list->items;
  const bool has_bounds = parameters[1] != nullptr || parameters[2] != nullptr;
  const std::optional<ByteSpan> span = has_bounds ? bounds_of(bytes, parameters, 1) : ByteSpan{0, bytes.size()};
  if (has_bounds) evaluator.heap().step(1 + bytes.size() / 16);
  return std::any_of(affixes.begin(), affixes.end(), [&](const Value& affix) {
    const std::string& part = require_text(affix, at_end ? "endswith()" : "startswith()")->bytes;
    if (!span) return false;
    const std::string_view view = std::string_view(bytes).substr(span->begin, span->end - span->begin);
    return at_end ? view.ends_with(part) : view.starts_with(part);
  });
}

/// The position of a part, as find, index and their variants from the right say it: a character, or -1.
std::int64_t position_of(Evaluator& evaluator, const Value& self, const Arguments& arguments, bool from_right) {
  const Parameters parameters("find", arguments, {"sub", "start", "end"}, 1);
  const std::string& bytes = self_text(self)->bytes;
  const std::string& part = require_text(*parameters[0], "find()")->bytes;
  evaluator.heap().step(1 + bytes.size() / 16);
  const std::optional<ByteSpan> span = bounds_of(bytes, parameters, 1);
  if (!span) return -1;
  const std::string_view view = std::string_view(bytes).substr(0, span->end);
  std::optional<std::size_t> found;
  if (from_right) {
    evaluator.heap().move_bytes(view.size() * std::min<std::size_t>(part.size(), 64));
    const std::size_t place = view.rfind(part);
    if (place != std::string_view::npos && place >= span->begin) found = place;
  } else {
    found = find_bytes(view, part, span->begin);
  }
  return found ? count_characters(view.substr(0, *found)) : -1;
}

template <bool from_right>
Value call_find(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  return position_of(evaluator, self, arguments, from_right);
}

template <bool from_right>
Value call_index(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const std::int64_t position = position_of(evaluator, self, arguments, from_right);
  if (position < 0) throw Failure("substring not found");
  return position;
}

Value call_count(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("count", arguments, {"sub", "start", "end"}, 1);
  const std::string& bytes = self_text(self)->bytes;
  const std::string& part = require_text(*parameters[0], "count()")->bytes;
  evaluator.heap().step(1 + bytes.size() / 16);
  const std::optional<ByteSpan> span = bounds_of(bytes, parameters, 1);
  if (!span) return std::int64_t{0};
  const std::string_view view = std::string_view(bytes).substr(0, span->end);
  if (part.empty()) return count_characters(view.substr(span->begin)) + 1;
  std::int64_t count = 0;
  for (std::optional<std::size_t> at = find_bytes(view, part, span->begin); at;
       at = find_bytes(view, part, *at + part.size())) {
    ++count;
  }
  return count;
}

Value call_replace(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("replace", arguments, {"old", "new", "count"}, 2);
  const Text& old_part = *require_text(*parameters[0], "replace()");
  const TextRef new_part = text_argument(evaluator, self, *parameters[1]);
  return replace(evaluator.heap(), self_text(self), old_part, *new_part, parameters.integer(2, -1));
}

Value call_join(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("join", arguments, {"iterable"}, 1);
  std::vector<TextRef> parts;
  for (const Value& item : items_of(evaluator.heap(), *parameters[0])) {
    if (item.text() == nullptr) {
      throw Failure("sequence item " + std::to_string(parts.size()) + ": expected str instance, " + type_name(item) +
                    " found");
    }
    parts.push_back(text_argument(evaluator, self, item));
  }
  return join(evaluator.heap(), *self_text(self), parts);
}

template <bool at_end>
Value call_remove(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters(at_end ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  const std::string& part = require_text(*parameters[0], "the method")->bytes;
  const std::size_t size = self_text(self)->bytes.size();
  const bool has_it = at_end ? self_text(self)->bytes.ends_with(part) : self_text(self)->bytes.starts_with(part);
  const std::size_t cut = has_it ? part.size() : 0;
  return cut_text(&evaluator.heap(), self_text(self), at_end ? 0 : cut, at_end ? size - cut : size);
}

template <Side side>
Value call_pad(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("the method", arguments, {"width", "fillchar"}, 1);
  const std::string fill = parameters[1] == nullptr ? " " : require_text(*parameters[1], "the method")->bytes;
  if (count_characters(fill) != 1) throw Failure("The fill character must be exactly one character long");
  return pad(evaluator.heap(), self_text(self), parameters.integer(0, 0), fill, side);
}

Value call_zfill(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("zfill", arguments, {"width"}, 1);
  Heap& heap = evaluator.heap();
  const TextRef& text = self_text(self);
  const std::size_t sign = text->bytes.starts_with('-') || text->bytes.starts_with('+') ? 1 : 0;
  const std::int64_t width = parameters.integer(0, 0) - static_cast<std::int64_t>(sign);
  TextBuilder builder(&heap);
  builder.append(*text, 0, sign);
  builder.append(*pad(heap, cut_text(&heap, text, sign, text->bytes.size()), width, "0", Side::left));
  return builder.take(text->is_markup);
}

Value call_expandtabs(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("expandtabs", arguments, {"tabsize"});
  const std::int64_t size = parameters.integer(0, 8);
  const Text& text = *self_text(self);
  TextBuilder builder(&evaluator.heap());
  std::int64_t column = 0;
  for (std::size_t position = 0; position < text.bytes.size();) {
    const std::size_t begin = position;
    const CodePoint character = next_code_point(text.bytes, position);
    if (character == '\t') {
      const std::int64_t blanks = size > 0 ? size - column % size : 0;
      evaluator.heap().require(static_cast<std::size_t>(blanks));
      builder.append(std::string(static_cast<std::size_t>(blanks), ' '), tag_at(text, begin));
      column += blanks;
    } else {
      builder.append(text, begin, position);
      column = character == '\n' || character == '\r' ? 0 : column + 1;
    }
  }
  return builder.take(text.is_markup);
}

Value call_format(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  return format_braces(evaluator, self_text(self), arguments);
}

/// Whether all characters are of a kind, and there is one unless `of_none`.
template <bool (*is_kind)(CodePoint), bool of_none = false>
Value are_all(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("the method", arguments, {});
  const std::string& bytes = self_text(self)->bytes;
  evaluator.heap().step(bytes.size() / 4);
  for (std::size_t position = 0; position < bytes.size();) {
    if (!is_kind(next_code_point(bytes, position))) return false;
  }
  return of_none || !bytes.empty();
}

bool is_alphanumeric(CodePoint c) { return is_alphabetic(c) || is_numeric(c); }
bool is_ascii(CodePoint c) { return c >= 0 && c < 0x80; }

template <bool upper>
Value have_case(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("the method", arguments, {});
  const std::string& bytes = self_text(self)->bytes;
  evaluator.heap().step(bytes.size() / 4);
  bool has_any = false;
  for (std::size_t position = 0; position < bytes.size();) {
    const CodePoint c = next_code_point(bytes, position);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    has_any |= upper ? is_upper(c) : is_lower(c);
  }
  return has_any;
}

Value call_istitle(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("istitle", arguments, {});
  const std::string& bytes = self_text(self)->bytes;
  evaluator.heap().step(bytes.size() / 4);
  bool has_any = false, is_inside = false;
  for (std::size_t position = 0; position < bytes.size();) {
    const CodePoint c = next_code_point(bytes, position);
    const bool is_raised = is_upper(c) || is_title(c), is_small = is_lower(c);
    if ((is_raised && is_inside) || (is_small && !is_inside)) return false;
    is_inside = is_raised || is_small;
    has_any |= is_inside;
  }
  return has_any;
}

Value call_isidentifier(Evaluator&, const Value& self, const Arguments& arguments) {
  const Parameters none("isidentifier", arguments, {});
  const std::string& bytes = self_text(self)->bytes;
  for (std::size_t position = 0; position < bytes.size();) {
    const bool is_first = position == 0;
    const CodePoint c = next_code_point(bytes, position);
    if (c >= 0x80) fail_unsupported("isidentifier() beyond ASCII");
    if (!is_word(c) || (is_first && is_decimal(c))) return false;
  }
  return !bytes.empty();
}

}  // namespace

const std::map<std::string_view, Method>& text_methods() {
  static const std::map<std::string_view, Method> all = {
      {"capitalize", call_capitalize},
      {"casefold", to_case<Case::fold>},
      {"center", call_pad<Side::both>},
      {"count", call_count},
      {"endswith", call_affix<true>},
      {"expandtabs", call_expandtabs},
      {"find", call_find<false>},
      {"format", call_format},
      {"index", call_index<false>},
      {"isalnum", are_all<is_alphanumeric>},
      {"isalpha", are_all<is_alphabetic>},
      {"isascii", are_all<is_ascii, true>},
      {"isdecimal", are_all<is_decimal>},
      {"isdigit", are_all<is_digit>},
      {"isidentifier", call_isidentifier},
      {"islower", have_case<false>},
      {"isnumeric", are_all<is_numeric>},
      {"isprintable", are_all<is_printable, true>},
      {"isspace", are_all<is_space>},
      {"istitle", call_istitle},
      {"isupper", have_case<true>},
      {"join", call_join},
      {"ljust", call_pad<Side::right>},
      {"lower", to_case<Case::lower>},
      {"lstrip", strip_side<Side::left>},
      {"partition", call_partition<false>},
      {"removeprefix", call_remove<false>},
      {"removesuffix", call_remove<true>},
      {"replace", call_replace},
      {"rfind", call_find<true>},
      {"rindex", call_index<true>},
      {"rjust", call_pad<Side::left>},
      {"rpartition", call_partition<true>},
      {"rsplit", call_split<true>},
      {"rstrip", strip_side<Side::right>},
      {"split", call_split<false>},
      {"splitlines", call_splitlines},
      {"startswith", call_affix<false>},
      {"strip", strip_side<Side::both>},
      {"swapcase", call_swapcase},
      {"title", call_title},
      {"upper", to_case<Case::upper>},
      {"zfill", call_zfill},
  };
  return all;
}

}  // namespace sft::jinja
