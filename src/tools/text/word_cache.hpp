// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tokens of words that were met before: most words of a text are.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

/// A token and the bytes [begin, end) of its word that it stands for.
struct WordToken {
  TokenId id = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// At most about 10 MiB; it forgets everything when it is full. For one thread at a time.
class WordCache {
 public:
  WordCache();

  static constexpr std::size_t max_word_bytes = 128;

  [[nodiscard]] static std::uint64_t hash_of(std::string_view word);

  /// Valid until the next insert().
  [[nodiscard]] std::optional<std::span<const WordToken>> find(std::string_view word, std::uint64_t hash) const;
  /// A word of at most max_word_bytes that find() does not find.
  void insert(std::string_view word, std::uint64_t hash, std::span<const WordToken> tokens);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t text_begin = 0;
    std::uint32_t tokens_begin = 0;
    std::uint16_t text_size = 0;  ///< 0: the slot is free
    std::uint16_t num_tokens = 0;
  };

  void clear();

  std::vector<Slot> slots_;
  std::size_t num_words_ = 0;
  std::string texts_;
  std::vector<WordToken> tokens_;
};

}  // namespace sft::text
