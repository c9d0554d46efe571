// SPDX-License-Identifier: Apache-2.0
#include "sft/sequence/attention_schedule.hpp"

#include <algorithm>
#include <iterator>

namespace sft::sequence {

namespace {

/// The part of a chunk within [begin, end) of the row; length <= 0 when there is none.
Chunk intersect(const Chunk& chunk, std::int64_t begin, std::int64_t end) {
  const std::int64_t from = std::max(chunk.global, begin);
  const std::int64_t to = std::min(chunk.global + chunk.length, end);
  return {chunk.local + from - chunk.global, from, to - from};
}

}  // namespace

std::vector<AttentionSpan> attention_spans(const RowDocuments& documents, const RowCut& cut, int q_rank, int k_rank) {
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
          if (k.length <= 0 || k.global > q.global) continue;
          spans.push_back({row_begin + q.local, q.length, row_begin + k.local, k.length, q.global - k.global, lane});
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

AttentionSchedule schedule_ring(const RowDocuments& documents, const RowCut& cut, int sp_rank) {
  const int sp_size = cut.sp_size();
  AttentionSchedule schedule;
  schedule.num_tokens = std::ssize(documents) * cut.local_length();
  schedule.steps.resize(static_cast<std::size_t>(sp_size));
  for (int d = 0; d < sp_size; ++d) {
    AttentionStep& step = schedule.steps[static_cast<std::size_t>(d)];
    step.to = (sp_rank + d) % sp_size;
    step.from = (sp_rank - d + sp_size) % sp_size;
    step.spans = attention_spans(documents, cut, sp_rank, step.from);
    step.receives = d > 0 && !step.spans.empty();
    step.sends = d > 0 && !attention_spans(documents, cut, step.to, sp_rank).empty();
  }
  return schedule;
}

std::int64_t max_schedule_bytes(std::int64_t num_rows, std::int64_t num_documents, int sp_size) {
  // A document within a chunk makes one span; only the first of a chunk can reach back, over all chunks before it.
  const std::int64_t num_reaching_back = sp_size > 1 ? num_rows * 4 * sp_size : 0;
  return (num_documents + num_reaching_back) * static_cast<std::int64_t>(sizeof(AttentionSpan)) +
         sp_size * static_cast<std::int64_t>(sizeof(AttentionStep));
}

}  // namespace sft::sequence
