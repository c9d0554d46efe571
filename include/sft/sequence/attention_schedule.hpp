// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who attends to whom under sequence parallelism: which rectangles of the score matrix a rank computes, and which keys
// it sends and receives for them. Made once per micro-batch from document lengths alone. Pure.
//
// There is one schedule for each way of attending over the sequence (parallel::SequenceAttention).

#include <cstdint>
#include <vector>

#include "sft/core/axis.hpp"
#include "sft/sequence/attention.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::sequence {

/// Documents of the rows of one micro-batch: lengths in order, per row; the padded tail does not count as one.
using RowDocuments = std::vector<std::vector<std::int32_t>>;

/// Which of a rank's two chunks (RowCut).
struct ChunkPair {
  bool front = false, back = false;

  [[nodiscard]] bool any() const { return front || back; }
  bool operator==(const ChunkPair&) const = default;
};

/// One round of exchange and the work on what it brings.
struct AttentionRound {
  SpRank to = 0, from = 0;    ///< this rank's keys go to `to`; those of `from` come in
  ChunkPair sends, receives;  ///< the chunks of this rank that `to` sees; those of `from` that this rank sees
  /// What this rank's queries see of the keys, as the schedule says; empty where no document has tokens on both ranks.
  std::vector<AttentionSpan> spans = {};

  bool operator==(const AttentionRound&) const = default;
};

/// What one rank does for the attention of a micro-batch, in order. Round 0 is its own keys.
struct AttentionSchedule {
  std::vector<AttentionRound> rounds;
  /// Queries that the spans count: the tokens of the micro-batch on this rank, as many as on every other; with
  /// ulysses_size > 1 those of its group of neighbours.
  std::int64_t num_tokens = 0;
  std::int64_t num_keys = 0;  ///< keys that the spans of a round count
};

/// One for each kind of attention that the layers of a model have.
using AttentionSchedules = IndexedVector<AttentionKind, AttentionSchedule>;

// `window` is that of the spans: how far back a query sees, in tokens; 0: all of its document.

/// The rectangles between the queries of sp rank `q_rank` and the keys of `k_rank`, both parts of the same rows, cut by
/// `cut`. Each is one of two kinds: causal square (q_len = k_len, diagonal 0) or full (every query sees every key), of
/// both of which a window may cut off what lies further back; in each some query sees some key.
[[nodiscard]] std::vector<AttentionSpan> attention_spans(const RowDocuments& documents, const RowCut& cut,
                                                         SpRank q_rank, SpRank k_rank, std::int64_t window = 0);

/// The chunks of sp rank `k_rank` that a query of `q_rank` sees a key of.
[[nodiscard]] ChunkPair chunks_seen(const RowDocuments& documents, const RowCut& cut, SpRank q_rank, SpRank k_rank,
                                    std::int64_t window = 0);

/// The ring: in round d, of sp_size, this rank's keys go d places on and those of the rank d places back come in. The
/// spans of a round are those with the keys of `from`; indices count local tokens. One rank alone has one round.
[[nodiscard]] AttentionSchedule schedule_ring(const RowDocuments& documents, const RowCut& cut, SpRank sp_rank,
                                              std::int64_t window = 0);

/// All keys at once: rounds and exchange as in the ring, but all spans stand in round 0, with keys that count the
/// tokens of the whole row. For one row.
[[nodiscard]] AttentionSchedule schedule_all_gather(const RowDocuments& documents, const RowCut& cut, SpRank sp_rank,
                                                    std::int64_t window = 0);

/// The schedule of `method` for one row. With ulysses_size > 1 it is that of the ring for a rank's group of neighbours:
/// rounds and spans are those of RowCut(cut.length(), sp_size / ulysses_size), whose ranks the groups are, and `to` and
/// `from` are the sp ranks with the same place in their groups.
[[nodiscard]] AttentionSchedule make_schedule(const AttentionMethod& method, const RowDocuments& documents,
                                              const RowCut& cut, SpRank sp_rank, std::int64_t window = 0);

/// make_schedule for each kind of attention.
[[nodiscard]] AttentionSchedules make_schedules(const AttentionMethod& method, const AttentionWindows& windows,
                                                const RowDocuments& documents, const RowCut& cut, SpRank sp_rank);

/// Host memory of a schedule of any method for rows with `num_documents` documents together, at most.
[[nodiscard]] std::int64_t max_schedule_bytes(std::int64_t num_rows, std::int64_t num_documents, int sp_size);

}  // namespace sft::sequence
