// SPDX-License-Identifier: Apache-2.0
#pragma once
// The documents of an attention plan as a library counts them: lengths and offsets in device memory.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ops/cuda/cudnn/working_memory.hpp"
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
  std::int64_t documents;         ///< their number: a power of two
  std::int64_t longest;           ///< queries of the longest: a power of two, at least 128
  std::int64_t window;            ///< 0: none that hides a key
  std::int64_t tokens;            ///< rows of all, as rounded_tokens() has them
  std::int64_t key_tokens;        ///< the same of keys
  std::int64_t longest_keys = 0;  ///< of tails, like `longest`; 0: squares
  bool operator==(const DocumentSizes&) const = default;

  [[nodiscard]] bool are_tails() const { return longest_keys > 0; }
};

/// Queries of a document and its keys up to the last of them, of which each query sees none behind itself: a square,
/// whose queries and keys are the same rows, or a tail, with keys before its queries.
struct PackedDocument {
  RowRange queries, keys;
};

/// Documents of calls of a library: in a call queries stand one behind the other, and so do keys.
struct PackedDocuments {
  std::vector<std::vector<PackedDocument>> calls;  ///< at least one, none empty; of squares one
  bool are_tails = false;
  std::int64_t window = 0;  ///< how far back a query sees, itself included; 0: as far as its document goes
  /// What queries of squares see beside that: of a document that begins on another rank, or comes back to this one.
  std::vector<sequence::AttentionSpan> rest;

  /// Among so many rows, some of which may be outside every document.
  [[nodiscard]] DocumentSizes sizes(std::int64_t num_queries, std::int64_t num_keys) const;
};

/// What of the spans are documents. Among as many keys as queries, squares: nothing where there are none, they do not
/// stand one behind the other, or a query of the rest has none. Among other numbers, all gathered keys of a row, tails:
/// nothing where some span is of none, or there would be more than max_tail_calls. Nothing, too, where the rounded
/// numbers would make a library go through far more than there is. Windows of the spans are one, as a TilePlan of them
/// has checked. Keys that a window hides from all queries are no document's. Pure.
[[nodiscard]] std::optional<PackedDocuments> find_documents(const std::vector<sequence::AttentionSpan>& spans,
                                                            std::int64_t num_queries, std::int64_t num_keys);

/// Elements between neighbouring rows of the tensors that were asked about last: tensors of a call have different rows,
/// q, k and v of a fused product, out, lse, dq, dk and dv, contiguous or not. What is uploaded with a plan need not be
/// in the middle of its calls, which may then be repeated.
class RowLengths {
 public:
  void add(std::int64_t row);
  [[nodiscard]] const std::vector<std::int64_t>& all() const { return rows_; }

 private:
  std::vector<std::int64_t> rows_;  ///< in the order in which they came
};

/// One side of the documents of a call, their number rounded up by documents of no rows: what a library is told in
/// device memory, which is the pool's.
class DocumentRows {
 public:
  /// Queues the upload on `stream`, on which attention is called too. `rows`: of each, one behind the other.
  /// `row_lengths`: whose offsets go with it, which is told of all that are asked for and outlives it; or null. Throws
  /// std::logic_error where the pool is too small.
  DocumentRows(PlanPool& pool, const std::vector<RowRange>& rows, std::int64_t num_documents, RowLengths* row_lengths,
               cudaStream_t stream);
  ~DocumentRows();
  DocumentRows(const DocumentRows&) = delete;
  DocumentRows& operator=(const DocumentRows&) = delete;

  [[nodiscard]] RowRange all() const { return {begins_.front(), begins_.back() - begins_.front()}; }
  [[nodiscard]] const std::int32_t* lengths() const { return lengths_; }
  /// (num_documents + 1) offsets of rows that are `row` elements apart. Queues their upload where they are not there.
  [[nodiscard]] const std::int64_t* offsets(std::int64_t row);
  /// Where all this lies (AttentionPlan::launch_words).
  void add_launch_words(std::vector<std::uint64_t>& words) const;

 private:
  /// A list in memory of the pool, once its upload is done.
  template <class T>
  [[nodiscard]] T* put(std::vector<T> values);

  PlanPool& pool_;
  RowLengths* row_lengths_;
  cudaStream_t stream_;
  std::vector<std::int64_t> begins_;  ///< of all documents, and the end of the last
  std::int32_t* lengths_ = nullptr;
  std::map<std::int64_t, std::int64_t*> offsets_;  ///< by row
};

/// Documents of one plan.
class Documents {
 public:
  struct Call {
    std::shared_ptr<DocumentRows> queries, keys;  ///< of squares the same
  };

  /// `found` by find_documents(), among so many rows. Uploads and throws as DocumentRows does; squares with the offsets
  /// of `row_lengths`.
  Documents(PlanPool& pool, const PackedDocuments& found, std::int64_t num_queries, std::int64_t num_keys,
            RowLengths& row_lengths, cudaStream_t stream);

  [[nodiscard]] const DocumentSizes& sizes() const { return sizes_; }
  [[nodiscard]] const std::vector<Call>& calls() const { return calls_; }
  /// Queries of no document.
  [[nodiscard]] const std::vector<RowRange>& outside() const { return outside_; }
  /// Of squares: all that their calls are made with.
  void add_launch_words(std::vector<std::uint64_t>& words) const;

 private:
  DocumentSizes sizes_;
  std::vector<Call> calls_;
  std::vector<RowRange> outside_;
};

}  // namespace cudnn
}  // namespace sft::ops::cuda
