// SPDX-License-Identifier: Apache-2.0
#include "jinja/strings.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

namespace sft::jinja {

namespace {

/// Breaks of str.splitlines.
bool is_line_break(CodePoint c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::vector<TextRef> split_words(Heap& heap, const TextRef& text, std::int64_t max_splits) {
  const std::string& bytes = text->bytes;
  std::vector<TextRef> words;
  std::size_t position = 0;
  const auto skip = [&](bool spaces) {
    while (position < bytes.size()) {
      std::size_t next = position;
      if (is_space(next_code_point(bytes, next)) != spaces) return;
      position = next;
    }
  };
  for (skip(true); position < bytes.size(); skip(true)) {
    const std::size_t begin = position;
    if (max_splits >= 0 && static_cast<std::int64_t>(words.size()) == max_splits) {
      words.push_back(cut_text(&heap, text, begin, bytes.size()));
      return words;
    }
    skip(false);
    words.push_back(cut_text(&heap, text, begin, position));
  }
  return words;
}

}  // namespace

std::optional<std::size_t> find_bytes(std::string_view text, std::string_view part, std::size_t begin) {
  if (begin > text.size()) return std::nullopt;
  if (part.empty()) return begin;
  const void* found = ::memmem(text.data() + begin, text.size() - begin, part.data(), part.size());
  if (found == nullptr) return std::nullopt;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

TextRef strip(Heap& heap, const TextRef& text, const Text* characters, Side side) {
  const std::string& bytes = text->bytes;
  heap.move_bytes(bytes.size());
  std::set<CodePoint> stripped;
  if (characters != nullptr) {
    for (std::size_t i = 0; i < characters->bytes.size();) stripped.insert(next_code_point(characters->bytes, i));
  }
  const auto is_stripped = [&](CodePoint c) { return characters == nullptr ? is_space(c) : stripped.contains(c); };
  std::size_t begin = 0, end = bytes.size();
  while (side != Side::right && begin < end) {
    std::size_t next = begin;
    if (!is_stripped(next_code_point(bytes, next))) break;
    begin = next;
  }
  while (side != Side::left && begin < end) {
    const std::size_t previous = previous_position(bytes, end);
    std::size_t next = previous;
    if (!is_stripped(next_code_point(bytes, next))) break;
    end = previous;
  }
  return cut_text(&heap, text, begin, end);
}

TextRef replace(Heap& heap, const TextRef& text, const Text& old_part, const Text& new_part, std::int64_t count) {
  const std::string& bytes = text->bytes;
  heap.move_bytes(bytes.size());
  TextBuilder builder(&heap);
  std::size_t done = 0, search = 0;
  for (std::int64_t i = 0; count < 0 || i < count; ++i) {
    const std::optional<std::size_t> found = find_bytes(bytes, old_part.bytes, search);
    if (!found) break;
    builder.append(*text, done, *found);
    builder.append(new_part);
    heap.step();
    done = *found + old_part.bytes.size();
    search = done;
    if (old_part.bytes.empty()) {
      if (search == bytes.size()) break;
      (void)next_code_point(bytes, search);
    }
  }
  builder.append(*text, done, bytes.size());
  return builder.take(text->is_markup);
}

TextRef change_case(Heap& heap, const TextRef& text, Case to) {
  TextBuilder builder(&heap);
  std::size_t begin = 0;
  for (const Run& run : text->runs) {
    builder.append(map_case(std::string_view(text->bytes).substr(begin, run.end - begin), to), run.tag);
    begin = run.end;
  }
  return builder.take(text->is_markup);
}

TextRef capitalize(Heap& heap, const TextRef& text) {
  if (text->bytes.empty()) return text;
  std::size_t end = 0;
  (void)next_code_point(text->bytes, end);
  TextBuilder builder(&heap);
  builder.append(*change_case(heap, cut_text(&heap, text, 0, end), Case::title));
  builder.append(*change_case(heap, cut_text(&heap, text, end, text->bytes.size()), Case::lower));
  return builder.take(text->is_markup);
}

std::vector<TextRef> split(Heap& heap, const TextRef& text, const Text* separator, std::int64_t max_splits) {
  heap.move_bytes(text->bytes.size());
  if (separator == nullptr) return split_words(heap, text, max_splits);
  if (separator->bytes.empty()) throw Failure("empty separator");
  std::vector<TextRef> parts;
  std::size_t done = 0;
  while (max_splits < 0 || static_cast<std::int64_t>(parts.size()) < max_splits) {
    const std::optional<std::size_t> found = find_bytes(text->bytes, separator->bytes, done);
    if (!found) break;
    parts.push_back(cut_text(&heap, text, done, *found));
    done = *found + separator->bytes.size();
  }
  parts.push_back(cut_text(&heap, text, done, text->bytes.size()));
  return parts;
}

std::vector<TextRef> split_lines(Heap& heap, const TextRef& text) {
  const std::string& bytes = text->bytes;
  heap.move_bytes(bytes.size());
  std::vector<TextRef> lines;
  std::size_t begin = 0;
  for (std::size_t position = 0; position < bytes.size();) {
    const std::size_t end = position;
    const CodePoint character = next_code_point(bytes, position);
    if (!is_line_break(character)) continue;
    if (character == '\r' && position < bytes.size() && bytes[position] == '\n') ++position;
    lines.push_back(cut_text(&heap, text, begin, end));
    begin = position;
  }
  if (begin < bytes.size()) lines.push_back(cut_text(&heap, text, begin, bytes.size()));
  return lines;
}

TextRef join(Heap& heap, const Text& separator, const std::vector<TextRef>& parts) {
  TextBuilder builder(&heap);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) builder.append(separator);
    builder.append(*parts[i]);
  }
  return builder.take(separator.is_markup);
}

}  // namespace sft::jinja
