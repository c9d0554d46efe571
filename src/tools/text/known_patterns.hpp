// SPDX-License-Identifier: Apache-2.0
#pragma once
// The regular expressions that most tokenizers split texts with, by hand: many times faster than a library of
// regular expressions.

#include <string_view>
#include <vector>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

/// What GPT-2 splits by, and ByteLevel unless told otherwise.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Cuts a well-formed text into words, which cover it, and replaces `words` by them.
using WordCutter = void (*)(std::string_view text, std::vector<ByteRange>& words);

/// For an expression that is known here; otherwise null. The words are its matches.
[[nodiscard]] WordCutter find_word_cutter(std::string_view pattern);

}  // namespace sft::text
