// SPDX-License-Identifier: Apache-2.0
#pragma once
// The unit of attention work: one rectangle of the causal, document-masked score matrix.

#include <cstdint>

namespace sft::sequence {

/// Query i of the span (row q_begin + i of q) sees key j (row k_begin + j of k) iff j <= i + diagonal. Spans of one
/// list with the same q range are neighbours and have equal (q_begin, q_len); different q ranges are disjoint, and so
/// are different k ranges. Spans of one `lane` share no query and no key with another lane's, and no lane's keys lie
/// between the first and the last key of another: lanes may run at the same time even in the backward pass.
struct AttentionSpan {
  std::int64_t q_begin, q_len, k_begin, k_len, diagonal, lane;

  bool operator==(const AttentionSpan&) const = default;
};

}  // namespace sft::sequence
