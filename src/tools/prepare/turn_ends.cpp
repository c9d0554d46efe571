// SPDX-License-Identifier: Apache-2.0
#include "prepare/turn_ends.hpp"

#include <algorithm>

namespace sft::prepare {

namespace {

constexpr std::size_t max_tokens_between = 3;  ///< of the template, from what a message says to the token that ends it

/// A half-open range of tokens.
struct TokenSpan {
  std::size_t begin = 0, end = 0;
};

/// The tokens that hold a byte of the range.
TokenSpan tokens_of(jinja::ByteSpan bytes, const std::vector<text::ByteRange>& offsets) {
  const auto begin = std::ranges::find_if(offsets, [&](const auto& token) { return token.end > bytes.begin; });
  const auto end = std::find_if(begin, offsets.end(), [&](const auto& token) { return token.begin >= bytes.end; });
  return {static_cast<std::size_t>(begin - offsets.begin()), static_cast<std::size_t>(end - offsets.begin())};
}

/// From the first to the last byte that `belongs` to something.
template <class Belongs>
jinja::ByteSpan bytes_of(const jinja::Rendered& rendered, const Belongs& belongs) {
  jinja::ByteSpan bytes;
  bool is_first = true;
  for (const jinja::Fragment& fragment : rendered.fragments) {
    if (!belongs(fragment)) continue;
    if (is_first) bytes.begin = fragment.bytes.begin;
    bytes.end = fragment.bytes.end;
    is_first = false;
  }
  return bytes;
}

}  // namespace

std::vector<bool> tokens_said(const Json& messages, const jinja::Rendered& rendered, const text::Encoding& encoding,
                              std::vector<bool> within, std::span<const text::TokenId> ends) {
  std::vector<bool> said(within.size(), false);
  const auto is_end = [&](std::size_t token) { return std::ranges::find(ends, encoding.ids[token]) != ends.end(); };
  for (std::int32_t m = 0; m < std::ssize(messages); ++m) {
    const Json& message = messages[m];
    if (message.value("role", "") != "assistant") continue;
    const jinja::ByteSpan own = bytes_of(rendered, [&](const jinja::Fragment& fragment) {
      if (fragment.source < 0) return false;
      const jinja::Source& source = rendered.sources[fragment.source];
      return source.message == m && source.field != "role";
    });
    if (own.begin == own.end) continue;
    TokenSpan span = tokens_of(own, encoding.offsets);
    const bool has_calls = message.contains("tool_calls") && !is_empty(message["tool_calls"]);
    if (has_calls) {
      const jinja::ByteSpan turn =
          bytes_of(rendered, [&](const jinja::Fragment& fragment) { return fragment.turn == m; });
      const TokenSpan all = tokens_of(turn, encoding.offsets);
      while (span.end < all.end && !is_end(span.end)) ++span.end;
      for (std::size_t i = all.begin; i < span.end; ++i) said[i] = within[i];
    } else {
      std::fill(said.begin() + static_cast<std::ptrdiff_t>(span.begin),
                said.begin() + static_cast<std::ptrdiff_t>(span.end), true);
    }
    const std::size_t last = std::min(said.size(), span.end + max_tokens_between + 1);
    for (std::size_t i = span.end; i < last; ++i) {
      if (!is_end(i)) continue;
      said[i] = true;
      break;
    }
  }
  return said;
}

}  // namespace sft::prepare
