// SPDX-License-Identifier: Apache-2.0
#include "text/word_cache.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace sft::text {

namespace {

constexpr std::size_t num_slots = std::size_t{1} << 17;
constexpr std::size_t max_words = num_slots / 2;
constexpr std::size_t max_text_bytes = std::size_t{2} << 20;
constexpr std::size_t max_tokens = std::size_t{1} << 18;

}  // namespace

WordCache::WordCache() : slots_(num_slots) {}

std::uint64_t WordCache::hash_of(std::string_view word) { return XXH3_64bits(word.data(), word.size()); }

std::optional<std::span<const WordToken>> WordCache::find(std::string_view word, std::uint64_t hash) const {
  for (std::size_t i = hash & (num_slots - 1);; i = (i + 1) & (num_slots - 1)) {
    const Slot& slot = slots_[i];
    if (slot.text_size == 0) return std::nullopt;
    if (slot.hash == hash && std::string_view(texts_).substr(slot.text_begin, slot.text_size) == word) {
      return std::span(tokens_).subspan(slot.tokens_begin, slot.num_tokens);
    }
  }
}

void WordCache::insert(std::string_view word, std::uint64_t hash, std::span<const WordToken> tokens) {
  if (num_words_ == max_words || texts_.size() + word.size() > max_text_bytes ||
      tokens_.size() + tokens.size() > max_tokens) {
    clear();
  }
  std::size_t i = hash & (num_slots - 1);
  while (slots_[i].text_size != 0) i = (i + 1) & (num_slots - 1);
  slots_[i] = {.hash = hash,
               .text_begin = static_cast<std::uint32_t>(texts_.size()),
               .tokens_begin = static_cast<std::uint32_t>(tokens_.size()),
               .text_size = static_cast<std::uint16_t>(word.size()),
               .num_tokens = static_cast<std::uint16_t>(tokens.size())};
  texts_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++num_words_;
}

void WordCache::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  num_words_ = 0;
  texts_.clear();
  tokens_.clear();
}

}  // namespace sft::text
