// SPDX-License-Identifier: Apache-2.0
#pragma once
// Regular expressions of tokenizer.json, by Oniguruma, the library that `tokenizers` uses.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

/// An expression in Oniguruma's own syntax, over Unicode 16. Threads may search with one object at the same time.
class Regex {
 public:
  /// Throws std::invalid_argument with the reason when it is none.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Replaces `matches` by all matches in a well-formed text from left to right, which do not overlap. An empty match
  /// directly behind another match is none. A data Error when a match takes more steps or memory than is reasonable.
  void find_all(std::string_view text, std::vector<ByteRange>& matches) const;

 private:
  struct Code;
  std::unique_ptr<const Code> code_;
};

/// Throws std::invalid_argument where replacing matches by `content` is not supported: the expression matches an empty
/// text, or the content refers to groups of it.
void check_replacement(const Regex& regex, const std::string& content);

}  // namespace sft::text
