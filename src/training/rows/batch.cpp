// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/batch.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::rows {

namespace {

/// Appends what `chunk` holds of one document, which begins at `begin` of the joined row and at `from` of its own one.
void append_document(MicroBatch& batch, const sequence::Chunk& chunk, const Row& row, std::int64_t from,
                     std::int64_t begin, std::int64_t length) {
  const std::int64_t first = std::max(chunk.global - begin, std::int64_t{0});
  const std::int64_t end = std::min(chunk.global + chunk.length - begin, length);
  for (std::int64_t i = first; i < end; ++i) {
    const std::size_t at = from + i;
    const bool is_last = i + 1 == length;
    batch.tokens.push_back(row.tokens[at]);
    batch.positions.push_back(static_cast<std::int32_t>(i));
    batch.targets.push_back(is_last ? 0 : row.tokens[at + 1]);
    batch.loss_weights.push_back(is_last ? 0.0f : row.loss_weight[at + 1]);
  }
}

/// What `chunk` holds of a row that begins at `begin` of the joined row.
void append_part(MicroBatch& batch, const sequence::Chunk& chunk, std::size_t row, std::int64_t begin,
                 std::int64_t row_tokens) {
  const std::int64_t first = std::max(chunk.global, begin);
  const std::int64_t end = std::min(chunk.global + chunk.length, begin + row_tokens);
  if (first >= end) return;
  batch.row_parts.push_back({.local = chunk.local + first - chunk.global,
                             .from = first - begin,
                             .num_tokens = end - first,
                             .row_tokens = row_tokens,
                             .row = row});
}

/// Makes every array hold `num_tokens`, with padding at the end: any id that exists, no label.
void pad(MicroBatch& batch, std::int64_t num_tokens) {
  const std::size_t size = num_tokens;
  batch.tokens.resize(size);
  batch.positions.resize(size);
  batch.targets.resize(size);
  batch.loss_weights.resize(size);
}

/// See MicroBatch::masked_squares.
double squares_masked_by(std::int64_t window, const std::vector<std::int32_t>& documents) {
  double sum = 0.0;
  for (const std::int64_t length : documents) {
    const auto hidden = static_cast<double>(window > 0 ? std::max<std::int64_t>(length - window, 0) : 0);
    sum += hidden * hidden;
  }
  return sum;
}

/// Weights are summed up one by one, over the border between rows too.
void add_row(BatchCounts& counts, std::span<const std::int32_t> document_lengths, std::span<const float> loss_weight) {
  std::size_t begin = 0;
  for (const std::int32_t length : document_lengths) {
    const std::size_t end = begin + length;
    counts.num_tokens += length;
    counts.length_squares += static_cast<double>(length) * static_cast<double>(length);
    for (std::size_t i = begin + 1; i < end; ++i) {
      counts.num_target_tokens += loss_weight[i] > 0.0f ? 1 : 0;
      counts.weight_sum += static_cast<double>(loss_weight[i]);
    }
    begin = end;
  }
}

}  // namespace

MicroBatch cut_rows(const std::vector<Row>& rows, int sp_size, int sp_rank, const sequence::AttentionMethod& method,
                    int local_multiple, const sequence::AttentionWindows& windows) {
  SFT_ENSURE(!rows.empty(), "a micro-batch has rows");
  std::vector<std::int32_t> documents;
  std::int64_t num_tokens = 0, max_tokens = 0;
  for (const Row& row : rows) {
    documents.insert(documents.end(), row.document_lengths.begin(), row.document_lengths.end());
    num_tokens += std::accumulate(row.document_lengths.begin(), row.document_lengths.end(), std::int64_t{0});
    max_tokens += std::ssize(row.tokens);
  }
  const sequence::RowCut cut(sequence::joined_row_length(num_tokens, max_tokens, sp_size, local_multiple), sp_size);
  MicroBatch batch;
  for (auto* of_tokens : {&batch.tokens, &batch.positions, &batch.targets}) {
    of_tokens->reserve(cut.local_length());
  }
  batch.loss_weights.reserve(cut.local_length());
  for (const sequence::Chunk& chunk : cut.chunks(sp_rank)) {
    std::int64_t begin = 0;
    for (std::size_t number = 0; number < rows.size(); ++number) {
      const Row& row = rows[number];
      std::int64_t from = 0;
      for (const std::int32_t length : row.document_lengths) {
        append_document(batch, chunk, row, from, begin + from, length);
        from += length;
      }
      append_part(batch, chunk, number, begin, from);
      begin += from;
    }
    pad(batch, chunk.local + chunk.length);
  }
  for (const std::int64_t window : windows) batch.masked_squares.push_back(squares_masked_by(window, documents));
  batch.attention = sequence::make_schedules(method, windows, {std::move(documents)}, cut, SpRank::from(sp_rank));
  return batch;
}

BatchCounts count_rows(const std::vector<Row>& rows) {
  BatchCounts counts;
  for (const Row& row : rows) add_row(counts, row.document_lengths, row.loss_weight);
  return counts;
}

BatchCounts count_row(std::span<const std::int32_t> document_lengths, std::span<const float> loss_weight) {
  BatchCounts counts;
  add_row(counts, document_lengths, loss_weight);
  return counts;
}

}  // namespace sft::rows
