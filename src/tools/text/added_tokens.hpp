// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens that are found in a text before it is cut into words: the "added_tokens" of tokenizer.json, special ones among
// them.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/json_fields.hpp"
#include "text/text_steps.hpp"
#include "text/vocabulary.hpp"

namespace sft::text {

struct AddedToken {
  std::string content;
  bool single_word = false;  ///< only where no word goes on before or behind it
  bool lstrip = false;       ///< with the blanks before it
  bool rstrip = false;       ///< with the blanks behind it
  bool normalized = false;   ///< looked for in the normalized text, in its own normalized form
  bool special = false;      ///< left out where special tokens are skipped

  bool operator==(const AddedToken&) const = default;
};

/// A token of a list in JSON: an object with "content" and the members above, false where they are missing.
[[nodiscard]] AddedToken added_token_of(const Json& description);

/// Finds the longest of some tokens that begins at the leftmost place.
class TokenFinder {
 public:
  /// The first of equal contents counts; empty ones are left out.
  void add(std::string_view content, TokenId id);

  struct Match {
    ByteRange range;
    TokenId id = 0;
  };
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t from) const;

 private:
  static constexpr TokenId no_token = -1;
  static constexpr std::uint32_t no_node = 0;  ///< the root, which follows no byte

  struct Hash {
    std::size_t operator()(std::uint64_t key) const { return key * 0x9E3779B97F4A7C15U; }
  };

  [[nodiscard]] std::uint32_t child_of(std::uint32_t node, char byte) const;

  std::vector<TokenId> ids_ = {no_token};  ///< by node of the tree of contents
  std::array<std::uint32_t, 256> first_{};
  std::unordered_map<std::uint64_t, std::uint32_t, Hash> children_;
};

/// A part of a text: a token, or text between tokens.
struct TokenOrText {
  ByteRange range;
  std::optional<TokenId> id;
};

class AddedTokens {
 public:
  /// Gives each the id that its content has among added tokens or in the vocabulary, otherwise the next one behind all.
  void add(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary);
  /// After the last add(). A token that is `normalized` is looked for as `normalizer`, if any, makes it.
  void prepare(const Normalizer* normalizer);

  [[nodiscard]] std::optional<TokenId> id_of(std::string_view content) const;
  [[nodiscard]] const AddedToken* token_of(TokenId id) const;
  /// What the decoder gets for the token: its content, or what it is looked for as. Null if there is no such token.
  [[nodiscard]] const std::string* text_of(TokenId id) const;
  [[nodiscard]] bool is_special(const std::string& content) const { return specials_.contains(content); }
  /// All, by ascending id.
  [[nodiscard]] std::vector<std::pair<TokenId, AddedToken>> all() const;

  /// Replaces `parts` by the tokens of one kind in a text, which is normalized or not, and what lies between. With
  /// `skip_special`, special tokens are text.
  void find(std::string_view text, bool is_normalized, bool skip_special, std::vector<TokenOrText>& parts) const;

 private:
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<TokenId, AddedToken> tokens_;
  std::unordered_map<TokenId, std::string> normalized_;  ///< contents, of those that the normalizer makes others of
  TokenId highest_id_ = -1;
  std::unordered_set<std::string> specials_;
  std::vector<AddedToken> special_list_, plain_list_;  ///< in the order in which they are looked for
  TokenFinder in_text_, in_normalized_;
};

}  // namespace sft::text
