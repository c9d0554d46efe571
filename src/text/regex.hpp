// SPDX-License-Identifier: Apache-2.0
#pragma once
// Regular expressions of tokenizer.json, by PCRE2 with its compiler to machine code.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

/// An expression in the Ruby syntax of Oniguruma, the library that `tokenizers` uses, over Unicode 16.
class Regex {
 public:
  /// Throws std::invalid_argument with the reason when it is none, or means something else in PCRE2.
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

/// The same expression in the syntax of PCRE2 with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE. Without additions it is
/// simpler, and the same for texts that have none of unicode_additions().
[[nodiscard]] std::string translate_regex(const std::string& pattern, bool with_additions);

}  // namespace sft::text
