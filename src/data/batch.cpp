// SPDX-License-Identifier: Apache-2.0
#include "sft/data/batch.hpp"

#include <iterator>

#include "sft/core/error.hpp"

namespace sft::data {

namespace {

/// One row with its labels: shifted on the whole row, so that any cut of it stays right.
struct LabelledRow {
  explicit LabelledRow(const Row& row)
      : positions(row.tokens.size(), 0), targets(row.tokens.size(), 0), weights(row.tokens.size(), 0.0f) {
    std::size_t begin = 0;
    for (const std::int32_t length : row.document_lengths) {
      const std::size_t end = begin + static_cast<std::size_t>(length);
      for (std::size_t i = begin; i < end; ++i) positions[i] = static_cast<std::int32_t>(i - begin);
      for (std::size_t i = begin; i + 1 < end; ++i) {
        targets[i] = row.tokens[i + 1];
        weights[i] = row.loss_weight[i + 1];
      }
      begin = end;
    }
  }

  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
};

}  // namespace

MicroBatch cut_rows(const std::vector<Row>& rows, int sp_size, int sp_rank) {
  ensure(!rows.empty(), "a micro-batch has rows");
  const sequence::RowCut cut(std::ssize(rows.front().tokens), sp_size);
  const std::vector<sequence::Chunk> chunks = cut.chunks(sp_rank);
  MicroBatch batch;
  const std::size_t num_tokens = rows.size() * static_cast<std::size_t>(cut.local_length());
  batch.tokens.reserve(num_tokens);
  batch.positions.reserve(num_tokens);
  batch.targets.reserve(num_tokens);
  batch.weights.reserve(num_tokens);
  sequence::RowDocuments documents;
  documents.reserve(rows.size());
  for (const Row& row : rows) {
    ensure(std::ssize(row.tokens) == cut.length(), "the rows of a micro-batch have one length");
    const LabelledRow labelled(row);
    for (const sequence::Chunk& chunk : chunks) {
      const auto append = [&chunk](auto& to, const auto& from) {
        to.insert(to.end(), from.begin() + chunk.global, from.begin() + chunk.global + chunk.length);
      };
      append(batch.tokens, row.tokens);
      append(batch.positions, labelled.positions);
      append(batch.targets, labelled.targets);
      append(batch.weights, labelled.weights);
    }
    documents.push_back(row.document_lengths);
  }
  batch.attention = sequence::schedule_ring(documents, cut, sp_rank);
  return batch;
}

BatchCounts count_rows(const std::vector<Row>& rows) {
  BatchCounts counts;
  for (const Row& row : rows) {
    std::size_t begin = 0;
    for (const std::int32_t length : row.document_lengths) {
      const std::size_t end = begin + static_cast<std::size_t>(length);
      counts.num_tokens += length;
      counts.length_squares += static_cast<double>(length) * static_cast<double>(length);
      for (std::size_t i = begin + 1; i < end; ++i) {
        counts.num_target_tokens += row.loss_weight[i] > 0.0f ? 1 : 0;
        counts.weight_sum += static_cast<double>(row.loss_weight[i]);
      }
      begin = end;
    }
  }
  return counts;
}

}  // namespace sft::data
