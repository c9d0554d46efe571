// SPDX-License-Identifier: Apache-2.0
#pragma once
// Micro-batches of this rank in order, read ahead by a thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "sft/rows/batch.hpp"
#include "sft/rows/row_order.hpp"

namespace sft::rows {

struct LoaderPlan {
  std::int64_t rows_per_micro_batch = 1;  ///< per_device_train_batch_size
  std::int64_t micro_batches = 1;         ///< gradient_accumulation_steps
  int data_size = 1, data_rank = 0;       ///< data-parallel ranks
  int sp_size = 1, sp_rank = 0;
  int sharing_size = 1, sharing_rank = 0;  ///< ranks that share rows, along sp, tp ...: the first of them reads
  int local_multiple = 1;                  ///< tokens of a micro-batch on a rank are a multiple of it
  sequence::AttentionMethod attention_method = {};
  sequence::AttentionWindows attention_windows = {0};  ///< of the kinds of attention that the layers have
  std::int64_t first_step = 0, last_step = 0;          ///< steps [first, last) are delivered
  OrderKind order = OrderKind::trl;
  StepOrigin origin = {};  ///< of the steps: where the run went on with another batch
  bool shuffle = true;
  std::uint64_t seed = 42;
  /// Most tokens of a micro-batch, before the cut for sp; 0: as many as its rows have room for.
  std::int64_t max_tokens = 0;

  /// Rows of a step over all data ranks, unless it is the short one at the end of an epoch.
  [[nodiscard]] std::int64_t rows_per_step() const { return rows_per_micro_batch * data_size * micro_batches; }
};

/// Host memory of this rank's micro-batches, however many a step has: those that are read ahead, the one that its user
/// holds, the rows that are cut, what HDF5 keeps of their files, their order, lengths and counts. Of ranks that share
/// rows only the first reads; the others hold what they compute on and what it is cut from.
[[nodiscard]] std::size_t loader_bytes(const PackedDataset& dataset, const LoaderPlan& plan);

/// What of the row table a rank that reads does so by.
[[nodiscard]] RowColumns columns_needed(const PackedDataset& dataset, const LoaderPlan& plan);

/// A step has the rows that StepPositions says, B = rows_per_step() or, at the end of an epoch of TRL's, fewer. Which
/// data rank has which of them in which micro-batch follows from their lengths, so that all have nearly equal work
/// (sft/rows/deal_rows.hpp). Ranks that have no row get micro-batches without a document. The thread reads ahead until
/// 4 MiB wait, and at least four micro-batches. Not collective. The data set must outlive it.
class Loader {
 public:
  Loader(const PackedDataset& dataset, const LoaderPlan& plan);
  ~Loader();
  /// The next micro-batch, step after step; blocks while the thread reads it. Counts of its whole step come with it. An
  /// error of the thread, such as a data Error, is rethrown where its micro-batch would come, that of counting a step
  /// where its first would come, and on every call after that. Throws std::logic_error past the last step.
  [[nodiscard]] MicroBatch next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads micro-batches ahead, as Loader does, for ranks that share rows: one of them reads, and each cuts its own part.
class RowLoader {
 public:
  RowLoader(const PackedDataset& dataset, const LoaderPlan& plan);
  ~RowLoader();
  /// The rows of the next micro-batch and their counts, as bytes for cut_packed_rows, about 8 for each token of a
  /// document. Errors as of Loader::next.
  [[nodiscard]] std::string next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// This rank's part of the rows that RowLoader::next gave, the micro-batch that Loader::next has in its place. `plan`
/// is this rank's own.
[[nodiscard]] MicroBatch cut_packed_rows(const std::string& rows, const LoaderPlan& plan);

}  // namespace sft::rows
