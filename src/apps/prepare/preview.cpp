// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "sft/core/format.hpp"
#include "sft/core/log.hpp"

namespace sft::apps {

namespace {

constexpr const char* dim = "\x1b[2m";
constexpr const char* green = "\x1b[32m";
constexpr const char* yellow = "\x1b[33m";
constexpr const char* plain = "\x1b[0m";

std::string marked(const std::string& text, float weight, bool has_colour) {
  const std::string shown = printable(text, true);
  const std::string label = weight > 0.0f && weight != 1.0f ? fmt::format("{:.4g}:", weight) : "";
  if (!has_colour) return weight > 0.0f ? fmt::format("⟦{}{}⟧", label, shown) : shown;
  return fmt::format("{}{}{}{}", weight == 0.0f ? dim : weight == 1.0f ? green : yellow, label, shown, plain);
}

/// A document, its runs of equal weight one after the other.
std::string document_text(std::span<const std::int32_t> tokens, std::span<const float> weights,
                          const text::Tokenizer& tokenizer, bool has_colour) {
  std::string out;
  std::size_t shown_bytes = 0;
  for (std::size_t begin = 0; begin < tokens.size();) {
    std::size_t end = begin + 1;
    while (end < tokens.size() && weights[end] == weights[begin]) ++end;
    // Decoded from the start, since a decoder may drop a blank at the beginning of what it is given.
    const std::string text = tokenizer.decode(tokens.first(end));
    out += marked(text.substr(std::min(shown_bytes, text.size())), weights[begin], has_colour);
    shown_bytes = text.size();
    begin = end;
  }
  return out;
}

}  // namespace

std::string preview_of(const rows::Row& row, std::int64_t index, std::int64_t num_rows,
                       const text::Tokenizer& tokenizer, bool has_colour) {
  const auto count_trained = [](std::span<const float> weights) {
    return std::ranges::count_if(weights, [](float weight) { return weight > 0.0f; });
  };
  const auto num_tokens = std::accumulate(row.document_lengths.begin(), row.document_lengths.end(), std::int64_t{0});
  std::string out = fmt::format("\nrow {} of {}: {} of {} tokens, {} trained on\n", index + 1, num_rows, num_tokens,
                                row.tokens.size(), count_trained(row.loss_weight));
  std::size_t begin = 0;
  for (std::size_t d = 0; d < row.document_lengths.size(); ++d) {
    const std::size_t length = row.document_lengths[d];
    const std::span<const float> weights = std::span(row.loss_weight).subspan(begin, length);
    out += fmt::format("── document {} of {}: {}, {} trained on ──\n", d + 1, row.document_lengths.size(),
                       plural(row.document_lengths[d], "token"), count_trained(weights));
    std::string text = document_text(std::span(row.tokens).subspan(begin, length), weights, tokenizer, has_colour);
    if (!text.ends_with('\n')) text += '\n';
    out += text;
    begin += length;
  }
  out.pop_back();
  return out;
}

}  // namespace sft::apps
