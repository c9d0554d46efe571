// SPDX-License-Identifier: Apache-2.0
#include "sft/data/batch.hpp"

#include <iterator>
#include <utility>

#include "sft/core/error.hpp"

namespace sft::data {

namespace {

/// The documents of rows, one after the other as one row, with their labels: shifted on the whole row, so that any cut
/// of it stays right.
struct JoinedRow {
  explicit JoinedRow(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      std::size_t begin = 0;
      for (const std::int32_t length : row.document_lengths) {
        append(row, begin, static_cast<std::size_t>(length));
        begin += static_cast<std::size_t>(length);
      }
      max_tokens += std::ssize(row.tokens);
    }
  }

  /// Padding behind the last document: any id that exists, no label.
  void pad(std::int64_t length) {
    const auto size = static_cast<std::size_t>(length);
    tokens.resize(size);
    positions.resize(size);
    targets.resize(size);
    weights.resize(size);
  }

  std::vector<std::int32_t> tokens, positions, targets;
  std::vector<float> weights;
  std::vector<std::int32_t> document_lengths;
  std::int64_t max_tokens = 0;  ///< that rows of these lengths can hold

 private:
  void append(const Row& row, std::size_t begin, std::size_t length) {
    document_lengths.push_back(static_cast<std::int32_t>(length));
    for (std::size_t i = 0; i < length; ++i) {
      const bool is_last = i + 1 == length;
      tokens.push_back(row.tokens[begin + i]);
      positions.push_back(static_cast<std::int32_t>(i));
      targets.push_back(is_last ? 0 : row.tokens[begin + i + 1]);
      weights.push_back(is_last ? 0.0f : row.loss_weight[begin + i + 1]);
    }
  }
};

}  // namespace

MicroBatch cut_rows(const std::vector<Row>& rows, int sp_size, int sp_rank) {
  ensure(!rows.empty(), "a micro-batch has rows");
  JoinedRow row(rows);
  const sequence::RowCut cut(sequence::joined_row_length(std::ssize(row.tokens), row.max_tokens, sp_size), sp_size);
  row.pad(cut.length());
  MicroBatch batch;
  for (const sequence::Chunk& chunk : cut.chunks(sp_rank)) {
    const auto append = [&](auto& to, const auto& from) {
      to.reserve(static_cast<std::size_t>(cut.local_length()));
      to.insert(to.end(), from.begin() + chunk.global, from.begin() + chunk.global + chunk.length);
    };
    append(batch.tokens, row.tokens);
    append(batch.positions, row.positions);
    append(batch.targets, row.targets);
    append(batch.weights, row.weights);
  }
  batch.attention = sequence::schedule_ring({std::move(row.document_lengths)}, cut, sp_rank);
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
