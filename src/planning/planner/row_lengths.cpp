// SPDX-License-Identifier: Apache-2.0
#include "sft/planner/row_lengths.hpp"

#include <algorithm>
#include <cmath>

#include "sft/core/cast.hpp"

namespace sft::planner {

RowLengths RowLengths::of(const rows::PackedDataset& data) {
  const auto num_rows = static_cast<double>(data.num_rows()), num_tokens = static_cast<double>(data.num_tokens());
  RowLengths lengths{
      .row_tokens = num_tokens / num_rows,
      .document_tokens = num_tokens / static_cast<double>(std::max<std::int64_t>(1, data.num_documents()))};
  if (!data.has_row_counts() || num_tokens == 0) return lengths;
  double squares = 0;
  for (const rows::BatchCounts& row : data.row_counts()) squares += row.length_squares;
  lengths.document_tokens = squares / num_tokens;
  return lengths;
}

std::vector<std::int32_t> mean_documents(const RowLengths& lengths, std::int64_t num_rows) {
  const std::int64_t tokens =
      std::max<std::int64_t>(1, std::llround(lengths.row_tokens * static_cast<double>(num_rows)));
  // As many as are nearest: the last one is not left with a few tokens.
  const std::int64_t count = std::clamp<std::int64_t>(
      std::llround(static_cast<double>(tokens) / std::max(1.0, lengths.document_tokens)), 1, tokens);
  std::vector<std::int32_t> documents;
  for (std::int64_t i = 0; i < count; ++i) {
    documents.push_back(checked_cast<std::int32_t>((i + 1) * tokens / count - i * tokens / count));
  }
  return documents;
}

}  // namespace sft::planner
