// SPDX-License-Identifier: Apache-2.0
#include "text/split_behavior.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <stdexcept>

namespace sft::text {

namespace {

struct SplitPart {
  ByteRange range;
  bool is_delimiter = false;
};

/// Delimiters and what lies between them, in order.
std::vector<SplitPart> pieces_of(const std::vector<ByteRange>& matches, std::size_t size, bool invert) {
  std::vector<SplitPart> pieces;
  std::size_t done = 0;
  for (const ByteRange& match : matches) {
    if (done != match.begin) pieces.push_back({{done, match.begin}, invert});
    pieces.push_back({match, !invert});
    done = match.end;
  }
  if (done != size) pieces.push_back({{done, size}, invert});
  return pieces;
}

void merge_equal_neighbours(const std::vector<SplitPart>& pieces, std::vector<ByteRange>& parts) {
  bool was_delimiter = false;
  for (const SplitPart& piece : pieces) {
    if (piece.is_delimiter == was_delimiter && !parts.empty()) {
      parts.back().end = piece.range.end;
    } else {
      parts.push_back(piece.range);
    }
    was_delimiter = piece.is_delimiter;
  }
}

void merge_into_previous(const std::vector<SplitPart>& pieces, std::vector<ByteRange>& parts) {
  bool was_delimiter = false;
  for (const SplitPart& piece : pieces) {
    if (piece.is_delimiter && !was_delimiter && !parts.empty()) {
      parts.back().end = piece.range.end;
    } else {
      parts.push_back(piece.range);
    }
    was_delimiter = piece.is_delimiter;
  }
}

void merge_into_next(const std::vector<SplitPart>& pieces, std::vector<ByteRange>& parts) {
  bool was_delimiter = false;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (piece->is_delimiter && !was_delimiter && !parts.empty()) {
      parts.back().begin = piece->range.begin;
    } else {
      parts.push_back(piece->range);
    }
    was_delimiter = piece->is_delimiter;
  }
  std::reverse(parts.begin(), parts.end());
}

}  // namespace

SplitBehavior split_behavior_of(const std::string& name) {
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw std::invalid_argument(fmt::format("the behavior {} of a pre-tokenizer is unknown", name));
}

void split_at(const std::vector<ByteRange>& matches, std::size_t size, SplitBehavior behavior, bool invert,
              std::vector<ByteRange>& parts) {
  parts.clear();
  const std::vector<SplitPart> pieces = pieces_of(matches, size, invert);
  switch (behavior) {
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      for (const SplitPart& piece : pieces) {
        if (!piece.is_delimiter || behavior == SplitBehavior::isolated) parts.push_back(piece.range);
      }
      return;
    case SplitBehavior::merged_with_previous:
      return merge_into_previous(pieces, parts);
    case SplitBehavior::merged_with_next:
      return merge_into_next(pieces, parts);
    case SplitBehavior::contiguous:
      return merge_equal_neighbours(pieces, parts);
  }
}

}  // namespace sft::text
