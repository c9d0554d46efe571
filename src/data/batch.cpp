#include "sft/data/batch.hpp"

#include <algorithm>

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
  ensure(sp_size >= 1 && sp_rank >= 0 && sp_rank < sp_size, "an sp rank lies in its group");
  MicroBatch batch;
  std::size_t num_tokens = 0;
  for (const Row& row : rows) num_tokens += row.tokens.size() / static_cast<std::size_t>(sp_size);
  batch.tokens.reserve(num_tokens);
  batch.positions.reserve(num_tokens);
  batch.targets.reserve(num_tokens);
  batch.weights.reserve(num_tokens);
  batch.document_lengths.reserve(rows.size());
  for (const Row& row : rows) {
    const auto length = static_cast<std::int64_t>(row.tokens.size());
    ensure(sp_size == 1 || length % (2 * sp_size) == 0, "max_length divides by 2 sp_size");
    const LabelledRow labelled(row);
    const auto append = [&batch, &row, &labelled](std::int64_t begin, std::int64_t end) {
      const auto copy = [begin, end](const auto& from, auto& to) {
        to.insert(to.end(), from.begin() + begin, from.begin() + end);
      };
      copy(row.tokens, batch.tokens);
      copy(labelled.positions, batch.positions);
      copy(labelled.targets, batch.targets);
      copy(labelled.weights, batch.weights);
    };
    if (sp_size == 1) {
      append(0, length);
    } else {
      const std::int64_t chunk = length / (2 * sp_size);
      const std::int64_t early = sp_rank, late = 2 * sp_size - 1 - sp_rank;
      append(early * chunk, (early + 1) * chunk);
      append(late * chunk, (late + 1) * chunk);
    }
    batch.document_lengths.push_back(row.document_lengths);
  }
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
