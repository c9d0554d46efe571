// SPDX-License-Identifier: Apache-2.0
#include "sft/sequence/attention_schedule.hpp"

#include <algorithm>
#include <iterator>

#include "sft/core/ensure.hpp"

namespace sft::sequence {

namespace {

/// The part of a chunk within [begin, end) of the row; length <= 0 when there is none.
Chunk intersect(const Chunk& chunk, std::int64_t begin, std::int64_t end) {
  const std::int64_t from = std::max(chunk.global, begin);
  const std::int64_t to = std::min(chunk.global + chunk.length, end);
  return {chunk.local + from - chunk.global, from, to - from};
}

/// What queries see of keys of the same document.
AttentionSpan span_of(const Chunk& queries, const Chunk& keys, std::int64_t lane, std::int64_t window) {
  return {queries.local, queries.length, keys.local, keys.length, queries.global - keys.global, lane, window};
}

/// The ring's rounds without spans.
AttentionSchedule schedule_exchange(const RowDocuments& documents, const RowCut& cut, SpRank sp_rank,
                                    std::int64_t window) {
  const int sp_size = cut.sp_size();
  AttentionSchedule schedule;
  schedule.num_tokens = schedule.num_keys = std::ssize(documents) * cut.local_length();
  schedule.rounds.resize(sp_size);
  for (int d = 0; d < sp_size; ++d) {
    AttentionRound& round = schedule.rounds[d];
    round.to = SpRank::from((sp_rank + d) % sp_size);
    round.from = SpRank::from((sp_rank - d + sp_size) % sp_size);
    if (d == 0) continue;
    round.receives = chunks_seen(documents, cut, sp_rank, round.from, window);
    round.sends = chunks_seen(documents, cut, round.to, sp_rank, window);
  }
  return schedule;
}

}  // namespace

std::vector<AttentionSpan> attention_spans(const RowDocuments& documents, const RowCut& cut, SpRank q_rank,
                                           SpRank k_rank, std::int64_t window) {
  const std::vector<Chunk> q_chunks = cut.chunks(q_rank), k_chunks = cut.chunks(k_rank);
  std::vector<AttentionSpan> spans;
  std::int64_t row_begin = 0, lane = 0;
  for (const std::vector<std::int32_t>& row : documents) {
    std::int64_t begin = 0;
    for (const std::int32_t document : row) {
      const std::int64_t end = begin + document;
      for (const Chunk& q_chunk : q_chunks) {
        const Chunk q = intersect(q_chunk, begin, end);
        if (q.length <= 0) continue;
        for (const Chunk& k_chunk : k_chunks) {
          const Chunk k = intersect(k_chunk, begin, end);
          AttentionSpan span = span_of(q, k, lane, window);
          if (!span.sees_any()) continue;
          span.q_begin += row_begin;
          span.k_begin += row_begin;
          spans.push_back(span);
        }
      }
      ++lane;
      begin = end;
    }
    row_begin += cut.local_length();
  }
  spans.shrink_to_fit();
  return spans;
}

ChunkPair chunks_seen(const RowDocuments& documents, const RowCut& cut, SpRank q_rank, SpRank k_rank,
                      std::int64_t window) {
  const std::vector<Chunk> q_chunks = cut.chunks(q_rank), k_chunks = cut.chunks(k_rank);
  ChunkPair seen;
  for (const std::vector<std::int32_t>& row : documents) {
    std::int64_t begin = 0;
    for (const std::int32_t document : row) {
      const std::int64_t end = begin + document;
      for (const Chunk& q_chunk : q_chunks) {
        const Chunk q = intersect(q_chunk, begin, end);
        const auto sees = [&](const Chunk& k_chunk) {
          return span_of(q, intersect(k_chunk, begin, end), /*lane=*/0, window).sees_any();
        };
        seen.front = seen.front || sees(k_chunks.front());
        seen.back = seen.back || sees(k_chunks.back());
      }
      begin = end;
    }
  }
  return seen;
}

AttentionSchedule schedule_ring(const RowDocuments& documents, const RowCut& cut, SpRank sp_rank, std::int64_t window) {
  AttentionSchedule schedule = schedule_exchange(documents, cut, sp_rank, window);
  for (AttentionRound& round : schedule.rounds) {
    round.spans = attention_spans(documents, cut, sp_rank, round.from, window);
  }
  return schedule;
}

AttentionSchedule schedule_all_gather(const RowDocuments& documents, const RowCut& cut, SpRank sp_rank,
                                      std::int64_t window) {
  SFT_ENSURE(documents.size() == 1, "keys are gathered for one row");
  AttentionSchedule schedule = schedule_exchange(documents, cut, sp_rank, window);
  schedule.num_keys = cut.length();
  std::vector<AttentionSpan>& spans = schedule.rounds.front().spans;
  const std::vector<Chunk> q_chunks = cut.chunks(sp_rank);
  std::int64_t begin = 0, lane = 0;
  for (const std::int32_t document : documents.front()) {
    const std::int64_t end = begin + document;
    for (const Chunk& q_chunk : q_chunks) {
      const Chunk q = intersect(q_chunk, begin, end);
      if (q.length <= 0) continue;
      // Keys are cut where chunks are, so that those of both queries' chunks are the same ranges.
      for (std::int64_t c = begin / q_chunk.length; c * q_chunk.length <= q.global; ++c) {
        const Chunk chunk{c * q_chunk.length, c * q_chunk.length, q_chunk.length};
        const AttentionSpan span = span_of(q, intersect(chunk, begin, end), lane, window);
        if (span.sees_any()) spans.push_back(span);
      }
    }
    ++lane;
    begin = end;
  }
  spans.shrink_to_fit();
  return schedule;
}

AttentionSchedule make_schedule(const AttentionMethod& method, const RowDocuments& documents, const RowCut& cut,
                                SpRank sp_rank, std::int64_t window) {
  const int sp_size = cut.sp_size(), ulysses_size = method.ulysses_size;
  const bool gathers = method.keys == AttentionMethod::Keys::all_gather;
  SFT_ENSURE(ulysses_size >= 1, "ulysses_size divides sp_size");
  SFT_ENSURE(sp_size % ulysses_size == 0, "ulysses_size divides sp_size");
  SFT_ENSURE(!gathers || ulysses_size == 1, "keys are gathered where no heads are exchanged");
  if (gathers) return schedule_all_gather(documents, cut, sp_rank, window);
  // A group of neighbours stands for a rank of a smaller sp.
  AttentionSchedule schedule = schedule_ring(documents, RowCut(cut.length(), sp_size / ulysses_size),
                                             SpRank::from(sp_rank / ulysses_size), window);
  const auto like_this_one = [=](SpRank group) { return SpRank::from(group * ulysses_size + sp_rank % ulysses_size); };
  for (AttentionRound& round : schedule.rounds) {
    round.to = like_this_one(round.to);
    round.from = like_this_one(round.from);
  }
  return schedule;
}

AttentionSchedules make_schedules(const AttentionMethod& method, const AttentionWindows& windows,
                                  const RowDocuments& documents, const RowCut& cut, SpRank sp_rank) {
  AttentionSchedules schedules;
  for (const std::int64_t window : windows) {
    schedules.push_back(make_schedule(method, documents, cut, sp_rank, window));
  }
  return schedules;
}

std::int64_t max_schedule_bytes(std::int64_t num_rows, std::int64_t num_documents, int sp_size) {
  // A document within a chunk makes one span; only the first of a chunk can reach back, over all chunks before it.
  const std::int64_t num_reaching_back = sp_size > 1 ? num_rows * 4 * sp_size : 0;
  return (num_documents + num_reaching_back) * static_cast<std::int64_t>(sizeof(AttentionSpan)) +
         sp_size * static_cast<std::int64_t>(sizeof(AttentionRound));
}

}  // namespace sft::sequence
