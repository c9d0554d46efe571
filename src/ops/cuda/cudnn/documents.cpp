// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/documents.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/cuda/attention_plan.hpp"
#include "ops/cuda/cudnn/working_memory.hpp"
#include "ops/cuda/kernels/kernels.hpp"

namespace sft::ops::cuda::cudnn {

DocumentSizes PackedDocuments::sizes(std::int64_t num_rows) const {
  return {.documents = static_cast<std::int64_t>(std::bit_ceil(rows.size())),
          .longest = rounded_longest(std::ranges::max(rows, {}, &RowRange::count).count),
          .window = window,
          .tokens = rounded_tokens(num_rows)};
}

std::optional<PackedDocuments> Documents::find(const std::vector<sequence::AttentionSpan>& spans,
                                               std::int64_t num_queries, std::int64_t num_keys) {
  if (num_queries != num_keys) return {};
  PackedDocuments found;
  std::vector<RowRange>& rows = found.rows;
  for (const sequence::AttentionSpan& span : spans) {
    if (span.q_len <= 0 || span.k_len <= 0) continue;
    const bool is_document = span.q_begin == span.k_begin && span.q_len == span.k_len && span.diagonal == 0;
    if (!is_document) {
      found.rest.push_back(span);
      continue;
    }
    if (span.is_windowed()) found.window = span.window;
    rows.push_back({span.q_begin, span.q_len});
  }
  if (rows.empty()) return {};
  std::ranges::sort(rows, {}, &RowRange::begin);
  // What stands between two documents would be of the first by its offsets.
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].begin != rows[i - 1].begin + rows[i - 1].count) return {};
  }
  // A query outside every document has no result that the rest could be merged with.
  const std::int64_t begin = rows.front().begin, end = rows.back().begin + rows.back().count;
  const auto is_within = [=](const sequence::AttentionSpan& span) {
    return span.q_begin >= begin && span.q_begin + span.q_len <= end;
  };
  if (!std::ranges::all_of(found.rest, is_within)) return {};
  const DocumentSizes sizes = found.sizes(num_queries);
  if (sizes.documents * sizes.longest > max_blocks_of_documents(num_queries)) return {};
  return found;
}

void RowLengths::add(std::int64_t row) {
  if (std::ranges::find(rows_, row) != rows_.end()) return;
  if (rows_.size() == most) rows_.erase(rows_.begin());
  rows_.push_back(row);
}

Documents::Documents(PlanPool& pool, const PackedDocuments& found, std::int64_t num_rows, RowLengths& lengths_of_rows,
                     cudaStream_t stream)
    : pool_(pool), rows_(lengths_of_rows), stream_(stream), sizes_(found.sizes(num_rows)) {
  const std::vector<RowRange>& rows = found.rows;
  std::vector<std::int32_t> lengths(sizes_.documents);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    lengths[i] = static_cast<std::int32_t>(rows[i].count);
    begins_.push_back(rows[i].begin);
  }
  const std::int64_t end = rows.back().begin + rows.back().count;
  begins_.resize(sizes_.documents + 1, end);
  if (rows.front().begin > 0) outside_.push_back({0, rows.front().begin});
  if (end < num_rows) outside_.push_back({end, num_rows - end});
  lengths_ = put(std::move(lengths));
  for (const std::int64_t row : rows_.all()) (void)offsets(row);
}

template <class T>
T* Documents::put(std::vector<T> values) {
  constexpr std::size_t granularity = 16 / sizeof(T);  // of uploads
  values.resize((values.size() + granularity - 1) / granularity * granularity);
  const std::size_t bytes = values.size() * sizeof(T);
  T* const memory = static_cast<T*>(pool_.take(bytes));
  upload(memory, values.data(), bytes, stream_);
  return memory;
}

Documents::~Documents() {
  pool_.give_back(lengths_);
  for (const auto& [row, memory] : offsets_) pool_.give_back(memory);
}

const std::int64_t* Documents::offsets(std::int64_t row) {
  const auto found = offsets_.find(row);
  if (found != offsets_.end()) return found->second;
  rows_.add(row);
  std::vector<std::int64_t> values(begins_.size());
  std::ranges::transform(begins_, values.begin(), [=](std::int64_t begin) { return begin * row; });
  return offsets_.emplace(row, put(std::move(values))).first->second;
}

void Documents::add_launch_words(std::vector<std::uint64_t>& words) const {
  const auto add = [&](const auto&... numbers) { (words.push_back(static_cast<std::uint64_t>(numbers)), ...); };
  add(sizes_.documents, sizes_.longest, sizes_.window, sizes_.tokens, std::bit_cast<std::uintptr_t>(lengths_),
      offsets_.size());
  for (const auto& [row, memory] : offsets_) add(row, std::bit_cast<std::uintptr_t>(memory));
  for (const RowRange& rows : outside_) add(rows.begin, rows.count);
}

std::int64_t rounded_tokens(std::int64_t tokens) {
  const auto power = static_cast<std::int64_t>(std::bit_floor<std::uint64_t>(std::max<std::int64_t>(tokens, 1)));
  const std::int64_t step = std::max<std::int64_t>(power / 4, 256);
  return (tokens + step - 1) / step * step;
}

std::size_t documents_bytes(std::int64_t num_rows) {
  const std::int64_t most = max_blocks_of_documents(num_rows) / least_longest;
  const auto padded = [](std::int64_t bytes) {
    constexpr auto granularity = static_cast<std::int64_t>(PlanPool::granularity_bytes);
    return (bytes + granularity - 1) / granularity * granularity;
  };
  return static_cast<std::size_t>(padded(most * 4) +
                                  static_cast<std::int64_t>(RowLengths::most) * padded((most + 1) * 8));
}

}  // namespace sft::ops::cuda::cudnn
