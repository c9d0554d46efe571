// SPDX-License-Identifier: Apache-2.0
#include "batches.hpp"

#include <string>

#include "row_message.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/program.hpp"

namespace sft::train {

Batches::Batches(const rows::PackedDataset& dataset, const rows::LoaderPlan& plan, const comm::Group& rows)
    : plan_(plan), rows_(rows) {
  if (rows.size() == 1) {
    loader_.emplace(dataset, plan);
  } else if (rows.rank() == 0) {
    row_loader_.emplace(dataset, plan);
  }
}

RowMessage Batches::read(std::exception_ptr& failure) {
  const Activity reading(ActivityKind::reads, "reading rows");
  try {
    return RowMessage(row_loader_->next());
  } catch (...) {
    failure = std::current_exception();
    return RowMessage(current_error());
  }
}

std::exception_ptr Batches::next(rows::MicroBatch& batch) {
  std::exception_ptr failure;
  RowMessage message;
  if (row_loader_) message = read(failure);
  if (!loader_) message.broadcast(rows_);
  if (failure) return failure;
  try {
    if (loader_) {
      const Activity reading(ActivityKind::reads, "reading rows");
      batch = loader_->next();
    } else {
      batch = rows::cut_packed_rows(message.rows(), plan_);
    }
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace sft::train
