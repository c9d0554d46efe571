// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who attends to whom under sequence parallelism: which rectangles of the score matrix a rank computes, and which keys
// it sends and receives for them. Made once per micro-batch from document lengths alone. Pure.
//
// There is one schedule for each way of attending over the sequence (parallel::SequenceAttention); so far that is the
// ring.

#include <cstdint>
#include <vector>

#include "sft/sequence/attention_span.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::sequence {

/// Documents of the rows of one micro-batch: lengths in order, per row; the padded tail does not count as one.
using RowDocuments = std::vector<std::vector<std::int32_t>>;

/// One round of exchange and the work on what it brings. Ranks are those of the sp group.
struct AttentionStep {
  int to = 0, from = 0;                  ///< this rank's keys go to `to`; those of `from` come in
  bool sends = false, receives = false;  ///< false where no document has tokens on both ranks
  std::vector<AttentionSpan> spans =
      {};  ///< of this rank's queries with the keys of `from`; indices count local tokens

  bool operator==(const AttentionStep&) const = default;
};

/// What one rank does for the attention of a micro-batch, in order. Step 0 is its own keys.
struct AttentionSchedule {
  std::vector<AttentionStep> steps;
  std::int64_t num_tokens = 0;  ///< T of the micro-batch: tokens on this rank, as many as on every other
};

/// The rectangles between the queries of sp rank `q_rank` and the keys of `k_rank`, both parts of the same rows, cut by
/// `cut`. Each is one of two kinds: causal square (q_len = k_len, diagonal 0) or full (every query sees every key).
[[nodiscard]] std::vector<AttentionSpan> attention_spans(const RowDocuments& documents, const RowCut& cut, int q_rank,
                                                         int k_rank);

/// The ring (Liu et al. 2023): in step d, of sp_size, this rank's keys go d places on and those of the rank d places
/// back come in. One rank alone has one step.
[[nodiscard]] AttentionSchedule schedule_ring(const RowDocuments& documents, const RowCut& cut, int sp_rank);

/// Host memory of a schedule of rows with `num_documents` documents together, at most.
[[nodiscard]] std::int64_t max_schedule_bytes(std::int64_t num_rows, std::int64_t num_documents, int sp_size);

}  // namespace sft::sequence
