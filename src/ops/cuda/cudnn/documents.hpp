// SPDX-License-Identifier: Apache-2.0
#pragma once
// The documents of an attention plan as a library counts them: lengths and offsets in device memory.

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sft/ops/backend.hpp"

namespace sft::ops::cuda {

class PlanPool;

namespace cudnn {

/// Rows [begin, begin + count).
struct RowRange {
  std::int64_t begin, count;
};

/// What a graph is for beside the tensors of a call.
struct DocumentSizes {
  std::int64_t documents;  ///< their number: a power of two
  std::int64_t longest;    ///< rows of the longest: a power of two, at least 128
  std::int64_t window;     ///< 0: none that hides a key
  std::int64_t tokens;     ///< rows of all, as rounded_tokens() has them
  bool operator==(const DocumentSizes&) const = default;
};

/// Documents, each of whose queries sees the keys of its own rows, no later one than itself.
struct PackedDocuments {
  std::vector<RowRange> rows;  ///< of each, one behind the other; at least one
  std::int64_t window = 0;     ///< how far back a query sees, itself included; 0: as far as its document goes
  /// What their queries see beside that: of a document that begins on another rank, or comes back to this one.
  std::vector<sequence::AttentionSpan> rest;

  /// In `num_rows` rows, some of which may be outside every document.
  [[nodiscard]] DocumentSizes sizes(std::int64_t num_rows) const;
};

/// Elements between neighbouring rows of the tensors that were asked about last: tensors of a call have different rows,
/// q, k and v of a fused product, out, lse, dq, dk and dv, contiguous or not. What is uploaded with a plan need not be
/// in the middle of its calls, which may then be repeated.
class RowLengths {
 public:
  static constexpr std::size_t most = 8;
  void add(std::int64_t row);
  [[nodiscard]] const std::vector<std::int64_t>& all() const { return rows_; }

 private:
  std::vector<std::int64_t> rows_;  ///< in the order in which they came
};

/// Documents of one plan in order, their number rounded up by documents of no rows. Its memory is the pool's.
class Documents {
 public:
  /// The spans that are causal squares of the same rows among keys and queries; nothing where there are none, they do
  /// not stand one behind the other, a query of the rest has none, or the rounded numbers would make a library go
  /// through far more than there is. Windows of the spans are one, as a TilePlan of them has checked.
  [[nodiscard]] static std::optional<PackedDocuments> find(const std::vector<sequence::AttentionSpan>& spans,
                                                           std::int64_t num_queries, std::int64_t num_keys);

  /// Queues the upload on `stream`, on which attention is called too, with the offsets for `rows`, which outlives it
  /// and is told of all that are asked for. `found` by find(), in `num_rows`. Throws std::logic_error where the pool is
  /// too small.
  Documents(PlanPool& pool, const PackedDocuments& found, std::int64_t num_rows, RowLengths& rows, cudaStream_t stream);
  ~Documents();
  Documents(const Documents&) = delete;
  Documents& operator=(const Documents&) = delete;

  [[nodiscard]] const DocumentSizes& sizes() const { return sizes_; }
  [[nodiscard]] const std::vector<RowRange>& outside() const { return outside_; }
  [[nodiscard]] const std::int32_t* lengths() const { return lengths_; }
  /// (num_documents + 1) offsets of rows that are `row` elements apart. Queues their upload where they are not there.
  [[nodiscard]] const std::int64_t* offsets(std::int64_t row);
  /// Adds what of this calls depend on when they are queued.
  void add_launch_words(std::vector<std::uint64_t>& words) const;

 private:
  /// A list in memory of the pool, once its upload is done.
  template <class T>
  [[nodiscard]] T* put(std::vector<T> values);

  PlanPool& pool_;
  RowLengths& rows_;
  cudaStream_t stream_;
  DocumentSizes sizes_;
  std::vector<RowRange> outside_;
  std::vector<std::int64_t> begins_;  ///< of all documents, and the end of the last
  std::int32_t* lengths_ = nullptr;
  std::map<std::int64_t, std::int64_t*> offsets_;  ///< by row
};

/// Tokens that a graph of the backward pass is made for where there are `tokens`: a quarter more at most. Pure.
[[nodiscard]] std::int64_t rounded_tokens(std::int64_t tokens);

/// Bytes of a PlanPool for the documents of a plan of `num_rows` rows. Pure.
[[nodiscard]] std::size_t documents_bytes(std::int64_t num_rows);

}  // namespace cudnn
}  // namespace sft::ops::cuda
