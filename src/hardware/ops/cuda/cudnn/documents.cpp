// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/documents.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "ops/cuda/attention_plan.hpp"
#include "ops/cuda/kernels/kernels.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

std::int64_t end_of(const RowRange& rows) { return rows.begin + rows.count; }

bool sees_none(const sequence::AttentionSpan& span) { return span.q_len <= 0 || span.k_len <= 0; }

std::optional<PackedDocuments> find_squares(const std::vector<sequence::AttentionSpan>& spans) {
  PackedDocuments found;
  std::vector<PackedDocument> squares;
  for (const sequence::AttentionSpan& span : spans) {
    if (sees_none(span)) continue;
    const bool is_square = span.q_begin == span.k_begin && span.q_len == span.k_len && span.diagonal == 0;
    if (!is_square) {
      found.rest.push_back(span);
      continue;
    }
    if (span.is_windowed()) found.window = span.window;
    const RowRange rows{span.q_begin, span.q_len};
    squares.push_back({rows, rows});
  }
  if (squares.empty()) return {};
  std::ranges::sort(squares, {}, [](const PackedDocument& square) { return square.queries.begin; });
  // What stands between two documents would be of the first by its offsets.
  for (std::size_t i = 1; i < squares.size(); ++i) {
    if (squares[i].queries.begin != end_of(squares[i - 1].queries)) return {};
  }
  // A query outside every document has no result that the rest could be merged with.
  const std::int64_t begin = squares.front().queries.begin, end = end_of(squares.back().queries);
  const auto is_within = [=](const sequence::AttentionSpan& span) {
    return span.q_begin >= begin && span.q_begin + span.q_len <= end;
  };
  if (!std::ranges::all_of(found.rest, is_within)) return {};
  found.calls.push_back(std::move(squares));
  return found;
}

/// Adds what more keys of the same queries stand before those of the tail; false: they do not.
bool extend(PackedDocument& tail, const sequence::AttentionSpan& span) {
  const std::int64_t end = span.k_begin + span.k_len;
  if (end != tail.keys.begin || span.k_begin + span.diagonal + span.q_len != end_of(tail.keys)) return false;
  tail.keys = {span.k_begin, tail.keys.count + span.k_len};
  return true;
}

std::optional<PackedDocuments> find_tails(std::vector<sequence::AttentionSpan> spans) {
  std::erase_if(spans, sees_none);
  // Queries in order, and of the same ones the last keys, which hold the queries' own, first.
  std::ranges::sort(spans, [](const auto& a, const auto& b) {
    return a.q_begin != b.q_begin ? a.q_begin < b.q_begin : a.k_begin > b.k_begin;
  });
  PackedDocuments found{.calls = {}, .are_tails = true, .rest = {}};
  std::vector<PackedDocument> tails;
  for (const sequence::AttentionSpan& span : spans) {
    if (span.is_windowed()) found.window = span.window;
    if (!tails.empty() && tails.back().queries.begin == span.q_begin) {
      if (!extend(tails.back(), span)) return {};
      continue;
    }
    if (span.k_len != span.diagonal + span.q_len) return {};
    tails.push_back({{span.q_begin, span.q_len}, {span.k_begin, span.k_len}});
  }
  for (PackedDocument& tail : tails) {
    if (found.window > 0) {  // what the first query does not see
      const std::int64_t most = tail.queries.count + found.window - 1, end = end_of(tail.keys);
      tail.keys.count = std::min(tail.keys.count, most);
      tail.keys.begin = end - tail.keys.count;
    }
    const PackedDocument* const last = found.calls.empty() ? nullptr : &found.calls.back().back();
    const bool goes_on =
        last != nullptr && end_of(last->queries) == tail.queries.begin && end_of(last->keys) == tail.keys.begin;
    if (!goes_on) found.calls.emplace_back();
    found.calls.back().push_back(tail);
  }
  if (found.calls.empty() || found.calls.size() > max_tail_calls) return {};
  return found;
}

/// The most that documents of one call have of something.
template <class Of>
std::int64_t most_of(const std::vector<std::vector<PackedDocument>>& calls, const Of& of) {
  std::int64_t most = 0;
  for (const auto& call : calls) most = std::max<std::int64_t>(most, of(call));
  return most;
}

}  // namespace

DocumentSizes PackedDocuments::sizes(std::int64_t num_queries, std::int64_t num_keys) const {
  const auto longest = [this](RowRange PackedDocument::*side) {
    return rounded_longest(most_of(calls, [side](const std::vector<PackedDocument>& call) {
      std::int64_t most = 0;
      for (const PackedDocument& document : call) most = std::max(most, (document.*side).count);
      return most;
    }));
  };
  const std::int64_t most = most_of(calls, [](const auto& call) { return std::ssize(call); });
  return {.documents = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most))),
          .longest = longest(&PackedDocument::queries),
          .window = window,
          .tokens = rounded_tokens(num_queries),
          .key_tokens = rounded_tokens(num_keys),
          .longest_keys = are_tails ? longest(&PackedDocument::keys) : 0};
}

std::optional<PackedDocuments> find_documents(const std::vector<sequence::AttentionSpan>& spans,
                                              std::int64_t num_queries, std::int64_t num_keys) {
  std::optional<PackedDocuments> found = num_queries == num_keys ? find_squares(spans) : find_tails(spans);
  if (!found) return {};
  const DocumentSizes sizes = found->sizes(num_queries, num_keys);
  const bool are_spread = sizes.documents * sizes.longest > max_blocks_of_documents(num_queries) ||
                          sizes.documents * sizes.longest_keys > max_blocks_of_documents(num_keys);
  if (are_spread) return {};
  return found;
}

void RowLengths::add(std::int64_t row) {
  if (std::ranges::find(rows_, row) != rows_.end()) return;
  if (rows_.size() == most_row_lengths) rows_.erase(rows_.begin());
  rows_.push_back(row);
}

DocumentRows::DocumentRows(PlanPool& pool, const std::vector<RowRange>& rows, std::int64_t num_documents,
                           RowLengths* row_lengths, cudaStream_t stream)
    : pool_(pool), row_lengths_(row_lengths), stream_(stream) {
  std::vector<std::int32_t> lengths(num_documents);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    lengths[i] = static_cast<std::int32_t>(rows[i].count);
    begins_.push_back(rows[i].begin);
  }
  begins_.resize(num_documents + 1, end_of(rows.back()));
  lengths_ = put(std::move(lengths));
  if (row_lengths_ == nullptr) return;
  for (const std::int64_t row : row_lengths_->all()) (void)offsets(row);
}

template <class T>
T* DocumentRows::put(std::vector<T> values) {
  constexpr std::size_t granularity = 16 / sizeof(T);  // of uploads
  values.resize((values.size() + granularity - 1) / granularity * granularity);
  const std::size_t bytes = values.size() * sizeof(T);
  T* const memory = static_cast<T*>(pool_.take(bytes));
  upload(memory, values.data(), bytes, stream_);
  return memory;
}

DocumentRows::~DocumentRows() {
  pool_.give_back(lengths_);
  for (const auto& [row, memory] : offsets_) pool_.give_back(memory);
}

const std::int64_t* DocumentRows::offsets(std::int64_t row) {
  const auto found = offsets_.find(row);
  if (found != offsets_.end()) return found->second;
  if (row_lengths_ != nullptr) row_lengths_->add(row);
  std::vector<std::int64_t> values(begins_.size());
  std::ranges::transform(begins_, values.begin(), [=](std::int64_t begin) { return begin * row; });
  return offsets_.emplace(row, put(std::move(values))).first->second;
}

void DocumentRows::add_launch_words(std::vector<std::uint64_t>& words) const {
  const auto add = [&](const auto&... numbers) { (words.push_back(static_cast<std::uint64_t>(numbers)), ...); };
  add(std::bit_cast<std::uintptr_t>(lengths_), offsets_.size());
  for (const auto& [row, memory] : offsets_) add(row, std::bit_cast<std::uintptr_t>(memory));
}

Documents::Documents(PlanPool& pool, const PackedDocuments& found, std::int64_t num_queries, std::int64_t num_keys,
                     RowLengths& row_lengths, cudaStream_t stream)
    : sizes_(found.sizes(num_queries, num_keys)) {
  std::int64_t row = 0;
  for (const std::vector<PackedDocument>& call : found.calls) {
    const auto rows_of = [&](RowRange PackedDocument::*side) {
      std::vector<RowRange> rows(call.size());
      std::ranges::transform(call, rows.begin(), side);
      return std::make_shared<DocumentRows>(pool, rows, sizes_.documents, found.are_tails ? nullptr : &row_lengths,
                                            stream);
    };
    const std::shared_ptr<DocumentRows> queries = rows_of(&PackedDocument::queries);
    calls_.push_back({queries, found.are_tails ? rows_of(&PackedDocument::keys) : queries});
    const RowRange all = queries->all();
    if (all.begin > row) outside_.push_back({row, all.begin - row});
    row = end_of(all);
  }
  if (row < num_queries) outside_.push_back({row, num_queries - row});
}

void Documents::add_launch_words(std::vector<std::uint64_t>& words) const {
  const auto add = [&](const auto&... numbers) { (words.push_back(static_cast<std::uint64_t>(numbers)), ...); };
  add(sizes_.documents, sizes_.longest, sizes_.window, sizes_.tokens);
  for (const Call& call : calls_) call.queries->add_launch_words(words);
  for (const RowRange& rows : outside_) add(rows.begin, rows.count);
}

}  // namespace sft::ops::cuda::cudnn
