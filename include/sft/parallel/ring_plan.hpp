#pragma once
// Who needs whose keys under sequence parallelism, and which rectangles of the score matrix that makes. Pure.

#include <cstdint>
#include <vector>

#include "sft/ops/backend.hpp"

namespace sft::parallel {

/// Documents of the rows of one micro-batch: lengths in order, per row; the padded tail is no document.
using RowDocuments = std::vector<std::vector<std::int32_t>>;

/// Rectangles between the queries of sp rank `q_rank` and the keys of `k_rank`, both zigzag parts of the same rows of
/// `length` tokens (chunks r and 2 sp_size - 1 - r; whole rows with sp_size = 1). Indices count local tokens.
[[nodiscard]] std::vector<ops::AttentionSpan> attention_spans(const RowDocuments& documents, std::int64_t length,
                                                              int sp_size, int q_rank, int k_rank);

/// At ring distance d this rank's keys go to rank + d, and those of rank - d come in, where a document spans both.
struct RingStep {
  int to = 0, from = 0;
  bool sends = false, receives = false;
  std::vector<ops::AttentionSpan> spans;  ///< of this rank's queries with the keys of `from`
};

/// Steps of distance 0 (own keys) to sp_size - 1.
[[nodiscard]] std::vector<RingStep> plan_ring(const RowDocuments& documents, std::int64_t length, int sp_size,
                                              int sp_rank);

}  // namespace sft::parallel
