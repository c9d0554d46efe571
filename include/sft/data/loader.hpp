// SPDX-License-Identifier: Apache-2.0
#pragma once
// Batches of this rank in order, read ahead by a thread.

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
  sequence::AttentionMethod attention_method = {};
  std::int64_t first_step = 0, last_step = 0;  ///< steps [first, last) are delivered
  bool shuffle = true;
  std::uint64_t seed = 42;
  bool one_pass = false;  ///< rows past the end of the data are empty; false: the next epoch begins
};

/// Host memory of a Loader: the batches that it and its user hold at a time, the rows that it cuts, what
/// HDF5 keeps of their files, and their order.
[[nodiscard]] std::size_t loader_bytes(const PackedDataset& dataset, const LoaderPlan& plan);

/// Position p = step * B + (micro * data_size + data_rank) * rows_per_micro_batch + i of the row order, B the effective
/// batch. Not collective. The data set must outlive it.
class Loader {
 public:
  Loader(const PackedDataset& dataset, const LoaderPlan& plan);
  ~Loader();
  /// The next step's batch; blocks while the thread reads it. An error of the thread, such as a data Error, is rethrown
  /// where its step would come, and on every call after that. Throws std::logic_error past the last step.
  [[nodiscard]] StepBatch next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sft::data
