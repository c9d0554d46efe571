// SPDX-License-Identifier: Apache-2.0
#pragma once
// What methods and filters do with strings; origins are kept.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "jinja/text.hpp"
#include "jinja/unicode.hpp"

namespace sft::jinja {

enum class Side : std::uint8_t { both, left, right };

/// Without the characters of `characters` at its ends; without white space if that is nullptr.
[[nodiscard]] TextRef strip(Heap& heap, const TextRef& text, const Text* characters, Side side = Side::both);
/// With the first `count` occurrences of `old_part` replaced; all if count < 0.
[[nodiscard]] TextRef replace(Heap& heap, const TextRef& text, const Text& old_part, const Text& new_part,
                              std::int64_t count);
/// In another case. The bytes of a run of one origin keep it.
[[nodiscard]] TextRef change_case(Heap& heap, const TextRef& text, Case to);
/// First character raised, the rest lowered: str.capitalize.
[[nodiscard]] TextRef capitalize(Heap& heap, const TextRef& text);
/// Parts between occurrences of `separator`, at most `max_splits` + 1 (< 0: any number). With no separator, the words
/// between white space.
[[nodiscard]] std::vector<TextRef> split(Heap& heap, const TextRef& text, const Text* separator,
                                         std::int64_t max_splits);
/// Python's str.splitlines: without the ends of lines.
[[nodiscard]] std::vector<TextRef> split_lines(Heap& heap, const TextRef& text);
/// The texts with `separator` between them.
[[nodiscard]] TextRef join(Heap& heap, const Text& separator, const std::vector<TextRef>& parts);
/// The position of `part` in `text` from `begin` on; nothing if it is not there. Linear in time.
[[nodiscard]] std::optional<std::size_t> find_bytes(std::string_view text, std::string_view part, std::size_t begin);

}  // namespace sft::jinja
