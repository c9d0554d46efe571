// SPDX-License-Identifier: Apache-2.0
#pragma once
// Micro-batches of this rank in order, read ahead by a thread.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sft/data/batch.hpp"
#include "sft/data/row_order.hpp"

namespace sft::data {

struct LoaderPlan {
  std::int64_t rows_per_micro_batch = 1;  ///< per_device_train_batch_size
  std::int64_t micro_batches = 1;         ///< gradient_accumulation_steps
  int data_size = 1, data_rank = 0;       ///< data-parallel ranks
  int sp_size = 1, sp_rank = 0;
  int local_multiple = 1;  ///< tokens of a micro-batch on a rank are a multiple of it
  sequence::AttentionMethod attention_method = {};
  std::int64_t first_step = 0, last_step = 0;  ///< steps [first, last) are delivered
  OrderKind order = OrderKind::trl;
  bool shuffle = true;
  std::uint64_t seed = 42;
  /// Most tokens of a micro-batch, before the cut for sp; 0: as many as its rows have room for.
  std::int64_t max_tokens = 0;

  /// Rows of a step over all data ranks, unless it is the short one at the end of an epoch.
  [[nodiscard]] std::int64_t rows_per_step() const { return rows_per_micro_batch * data_size * micro_batches; }
};

/// Most rows of a data set whose lengths are held to deal rows by them: beyond, rows keep their order.
inline constexpr std::int64_t max_rows_dealt = std::int64_t{1} << 24;

/// Host memory of a Loader, however many micro-batches a step has: the one that its user holds and the one that is
/// being read, the rows that it cuts, what HDF5 keeps of their files, their order and their lengths.
[[nodiscard]] std::size_t loader_bytes(const PackedDataset& dataset, const LoaderPlan& plan);

/// A step has the rows that StepPositions says, B = rows_per_step() or, at the end of an epoch of TRL's, fewer. Which
/// data rank has which of them in which micro-batch follows from their lengths, so that all have nearly equal work
/// (src/data/deal_rows.hpp). Ranks that have no row get micro-batches without a document. Not collective. The data set
/// must outlive it.
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

}  // namespace sft::data
