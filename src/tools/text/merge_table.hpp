// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which neighbouring tokens become one, and in which order: a hash table with open addressing.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

struct Merge {
  std::uint32_t rank = no_rank;  ///< the lowest rank goes first
  TokenId product = 0;

  static constexpr std::uint32_t no_rank = 0xFFFFFFFFU;
};

class MergeTable {
 public:
  explicit MergeTable(std::size_t num_merges) {
    std::size_t num_slots = 16;
    while (num_slots < 2 * num_merges) num_slots *= 2;
    slots_.resize(num_slots);
    shift_ = 64;
    for (std::size_t n = num_slots; n > 1; n /= 2) --shift_;
  }

  /// At most the number that was promised. The last one of a pair counts.
  void set(TokenId left, TokenId right, Merge merge) {
    Slot& slot = slots_[find_slot(left, right)];
    slot = {key_of(left, right), merge};
  }

  /// With no_rank if the two do not merge.
  [[nodiscard]] Merge find(TokenId left, TokenId right) const { return slots_[find_slot(left, right)].merge; }

 private:
  struct Slot {
    std::uint64_t key = empty;
    Merge merge;
  };
  static constexpr std::uint64_t empty = ~std::uint64_t{0};

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t find_slot(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    std::size_t slot = (key ^ key >> 29U) * 0x9E3779B97F4A7C15U >> shift_;
    while (slots_[slot].key != key && slots_[slot].key != empty) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;
  unsigned shift_ = 0;
};

}  // namespace sft::text
