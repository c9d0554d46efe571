// SPDX-License-Identifier: Apache-2.0
#pragma once
// The micro-batches of a rank, whichever rank reads their rows.

#include <exception>
#include <optional>

#include "row_message.hpp"
#include "sft/comm/group.hpp"
#include "sft/rows/loader.hpp"

namespace sft::train {

/// Of ranks that share rows the first one reads, ahead and in a thread of its own; every call of next() sends the rows
/// of one micro-batch to the others, and each cuts its part of them.
class Batches {
 public:
  /// `rows`: the ranks that share rows with this one, whose number and order are those of `plan`. Local. Data set and
  /// group outlive the object.
  Batches(const rows::PackedDataset& dataset, const rows::LoaderPlan& plan, const comm::Group& rows);

  /// The next micro-batch, and what kept this rank from it: where the rank that reads fails, all that share its rows
  /// get its error, and go on to agree on it with the rest of the world. Collective over `rows`.
  [[nodiscard]] std::exception_ptr next(rows::MicroBatch& batch);

 private:
  /// What the rank that reads sends: its rows, or its error.
  [[nodiscard]] RowMessage read(std::exception_ptr& failure);

  const rows::LoaderPlan plan_;
  const comm::Group& rows_;
  std::optional<rows::Loader> loader_;         ///< of a rank that shares its rows with no other
  std::optional<rows::RowLoader> row_loader_;  ///< of the first of those that share rows
};

}  // namespace sft::train
