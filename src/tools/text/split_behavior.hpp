// SPDX-License-Identifier: Apache-2.0
#pragma once
// What becomes of the parts of a text that a delimiter matches, and of those between them.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

enum class SplitBehavior : std::uint8_t {
  removed,               ///< the delimiter goes
  isolated,              ///< each delimiter is a part of its own
  merged_with_previous,  ///< it ends the part before it
  merged_with_next,      ///< it begins the part behind it
  contiguous,            ///< as isolated, but neighbouring delimiters are one part
};

/// The behavior that tokenizer.json names so ("MergedWithNext"); throws std::invalid_argument for another name.
[[nodiscard]] SplitBehavior split_behavior_of(const std::string& name);

/// Replaces `parts` by the parts of a text of `size` bytes in which `matches` are the delimiters, or with `invert` what
/// lies between them. Some may be empty.
void split_at(const std::vector<ByteRange>& matches, std::size_t size, SplitBehavior behavior, bool invert,
              std::vector<ByteRange>& parts);

}  // namespace sft::text
