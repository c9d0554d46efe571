#include "sft/parallel/ring_plan.hpp"

#include <algorithm>
#include <array>

#include "sft/core/cast.hpp"

namespace sft::parallel {

namespace {

/// A run of neighbouring tokens of one row: `local` is its first token's index on the rank, `global` in the row.
struct Chunk {
  std::int64_t local, global, length;
};

std::vector<Chunk> chunks_of(std::int64_t length, int sp_size, int rank) {
  if (sp_size == 1) return {{0, 0, length}};
  const std::int64_t n = length / (2 * sp_size);
  return {{0, rank * n, n}, {n, (2 * sp_size - 1 - rank) * n, n}};
}

/// The part of a chunk within [begin, end) of the row; length <= 0 when there is none.
Chunk intersect(const Chunk& chunk, std::int64_t begin, std::int64_t end) {
  const std::int64_t from = std::max(chunk.global, begin);
  const std::int64_t to = std::min(chunk.global + chunk.length, end);
  return {chunk.local + from - chunk.global, from, to - from};
}

}  // namespace

std::vector<ops::AttentionSpan> attention_spans(const RowDocuments& documents, std::int64_t length, int sp_size,
                                                int q_rank, int k_rank) {
  const std::vector<Chunk> q_chunks = chunks_of(length, sp_size, q_rank);
  const std::vector<Chunk> k_chunks = chunks_of(length, sp_size, k_rank);
  const std::int64_t local_length = length / sp_size;
  std::vector<ops::AttentionSpan> spans;
  std::int32_t lane = 0;
  for (std::size_t row = 0; row < documents.size(); ++row) {
    const std::int64_t row_begin = static_cast<std::int64_t>(row) * local_length;
    std::int64_t begin = 0;
    for (const std::int32_t document : documents[row]) {
      const std::int64_t end = begin + document;
      for (const Chunk& q_chunk : q_chunks) {
        const Chunk q = intersect(q_chunk, begin, end);
        if (q.length <= 0) continue;
        for (const Chunk& k_chunk : k_chunks) {
          const Chunk k = intersect(k_chunk, begin, end);
          if (k.length <= 0 || k.global > q.global + q.length - 1) continue;
          spans.push_back({checked_cast<std::int32_t>(row_begin + q.local), checked_cast<std::int32_t>(q.length),
                           checked_cast<std::int32_t>(row_begin + k.local), checked_cast<std::int32_t>(k.length),
                           q.global - k.global, lane});
        }
      }
      ++lane;
      begin = end;
    }
  }
  return spans;
}

std::vector<RingStep> plan_ring(const RowDocuments& documents, std::int64_t length, int sp_size, int sp_rank) {
  std::vector<RingStep> steps(static_cast<std::size_t>(sp_size));
  for (int d = 0; d < sp_size; ++d) {
    RingStep& step = steps[static_cast<std::size_t>(d)];
    step.to = (sp_rank + d) % sp_size;
    step.from = (sp_rank - d + sp_size) % sp_size;
    step.spans = attention_spans(documents, length, sp_size, sp_rank, step.from);
    step.receives = d > 0 && !step.spans.empty();
    step.sends = d > 0 && !attention_spans(documents, length, sp_size, step.to, sp_rank).empty();
  }
  return steps;
}

}  // namespace sft::parallel
