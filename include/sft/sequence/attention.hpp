// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention over rows that the ranks of an sp group share: how they reach each other's keys and values, and the
// rectangles that its work consists of. Pure.

#include <cstdint>

#include "sft/core/index.hpp"

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

/// The number of a kind of attention among those that the layers of a model have: what a query sees differs from kind
/// to kind, and layers of one kind share what is prepared for a micro-batch.
using AttentionKind = Index<struct AttentionKindOf>;

/// How far back a query sees, itself included, in tokens of its document (Beltagy et al. 2020), for each kind of
/// attention; 0: all of the document.
using AttentionWindows = IndexedVector<AttentionKind, std::int64_t>;

/// The unit of attention work: one rectangle of the causal, document-masked score matrix. Query i of the span (row
/// q_begin + i of q) sees key j (row k_begin + j of k) iff j <= i + diagonal and, with a window, j > i + diagonal -
/// window. Spans of one list have one window. Those with the same q range are neighbours and have equal (q_begin,
/// q_len); different q ranges are disjoint, and so are different k ranges. Spans of one `lane` share no query and no
/// key with another lane's, and no lane's keys lie between the first and the last key of another: lanes may run at the
/// same time even in the backward pass.
struct AttentionSpan {
  std::int64_t q_begin, q_len, k_begin, k_len;
  /// Tokens of the document from the first key to the first query; without a window any number from k_len on says the
  /// same.
  std::int64_t diagonal;
  std::int64_t lane;
  std::int64_t window = 0;  ///< 0: none

  /// Whether some query sees some key.
  [[nodiscard]] bool sees_any() const {
    return q_len > 0 && k_len > 0 && q_len - 1 + diagonal >= 0 && (window == 0 || k_len - 1 > diagonal - window);
  }
  /// Whether the window keeps some query from the first key; else it changes nothing.
  [[nodiscard]] bool is_windowed() const { return window > 0 && q_len - 1 + diagonal >= window; }

  bool operator==(const AttentionSpan&) const = default;
};

}  // namespace sft::sequence
