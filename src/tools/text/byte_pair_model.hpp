// SPDX-License-Identifier: Apache-2.0
#pragma once
// Byte pair encoding (Sennrich, Haddow and Birch, 2016): a word's characters are tokens at first; then the neighbours
// whose merge has the lowest rank become one token, the leftmost of equal ones, until no neighbours merge.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/json_fields.hpp"
#include "text/merge_table.hpp"
#include "text/vocabulary.hpp"
#include "text/word_cache.hpp"

namespace sft::text {

/// Code points, the low ones looked up at once.
class CharacterSet {
 public:
  void insert(char32_t c) {
    if (c < low_.size()) {
      low_[c] = true;
    } else {
      high_.insert(c);
    }
  }
  [[nodiscard]] bool contains(char32_t c) const { return c < low_.size() ? low_[c] : high_.contains(c); }

 private:
  std::array<bool, 256> low_{};
  std::unordered_set<char32_t> high_;
};

class BytePairModel {
 public:
  /// Reads the "model" of tokenizer.json. With `takes_bytes`, words are bytes that stand for the characters of a
  /// byte-level vocabulary. Throws std::invalid_argument with the reason if it is damaged or not supported.
  BytePairModel(const Json& description, bool takes_bytes);

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

  /// Replaces `tokens` by those of a word of 1 to 2^31 - 1 bytes. Characters that are not in the vocabulary become the
  /// tokens of their bytes ("<0xE2>") or the unknown token, or nothing where the model has neither.
  void tokenize(std::string_view word, WordCache& cache, std::vector<WordToken>& tokens) const;

 private:
  struct Symbol;

  void read_merges(const Json& description);
  void find_characters();
  void find_cuts();
  [[nodiscard]] std::string name_of_character(std::string_view word, std::size_t begin, std::size_t end) const;
  [[nodiscard]] TokenId id_of_character(std::string_view word, std::size_t begin, std::size_t end) const;
  /// Appends the tokens of a part of a word that begins at `begin`.
  void tokenize_part(std::string_view part, std::size_t begin, bool look_up_whole, WordCache& cache,
                     std::vector<WordToken>& tokens) const;
  [[nodiscard]] std::vector<WordToken> merge_word(std::string_view word, bool look_up_whole) const;
  [[nodiscard]] bool symbols_of_bytes(std::string_view word, std::vector<Symbol>& symbols) const;
  void symbols_of_characters(std::string_view word, std::vector<Symbol>& symbols) const;
  [[nodiscard]] bool append_fallback(std::string_view name, std::uint32_t begin, std::uint32_t end,
                                     std::vector<Symbol>& symbols) const;
  [[nodiscard]] TokenId unknown_id() const;
  void merge_few(std::vector<Symbol>& symbols) const;
  void merge_many(std::vector<Symbol>& symbols) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  bool takes_bytes_;
  std::string unknown_;  ///< token; empty: none
  std::string prefix_, suffix_;
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
  std::array<TokenId, 256> byte_ids_{};      ///< of the characters that stand for bytes; -1: not in the vocabulary
  std::vector<TokenId> character_ids_;       ///< by code point, of the lower ones; -1: not in the vocabulary
  std::array<TokenId, 256> fallback_ids_{};  ///< of "<0x00>" to "<0xFF>"; -1: not in the vocabulary
  /// Where no token reaches from a character into the blank behind it, a text may be cut there, and the parts found
  /// again.
  bool can_cut_ = false;
  CharacterSet before_blanks_;  ///< characters after which a token goes on with a blank
};

}  // namespace sft::text
