// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention over rows that the ranks of an sp group share: how they reach each other's keys and values, and the
// rectangles that its work consists of. Pure.

#include <cstdint>

namespace sft::sequence {

/// The sp ranks r with the same r / ulysses_size, neighbours, exchange heads: each holds some heads of all tokens of
/// them together (Jacobs et al. 2023). Keys and values of these heads travel between the groups of neighbours in one of
/// two ways. ulysses_size = 1 exchanges no heads; ulysses_size = sp_size leaves nothing to travel; between them the two
/// are combined (Fang & Zhao 2024).
struct AttentionMethod {
  enum class Keys {
    ring,       ///< from one to the next (Liu et al. 2023)
    all_gather  ///< to all at once, some heads at a time (Llama Team 2024)
  };

  Keys keys = Keys::ring;
  int ulysses_size = 1;  ///< divides sp_size; 1 with all_gather

  [[nodiscard]] bool operator==(const AttentionMethod&) const = default;
};

/// The unit of attention work: one rectangle of the causal, document-masked score matrix. Query i of the span (row
/// q_begin + i of q) sees key j (row k_begin + j of k) iff j <= i + diagonal. Spans of one list with the same q range
/// are neighbours and have equal (q_begin, q_len); different q ranges are disjoint, and so are different k ranges.
/// Spans of one `lane` share no query and no key with another lane's, and no lane's keys lie between the first and the
/// last key of another: lanes may run at the same time even in the backward pass.
struct AttentionSpan {
  std::int64_t q_begin, q_len, k_begin, k_len, diagonal, lane;

  bool operator==(const AttentionSpan&) const = default;
};

}  // namespace sft::sequence
