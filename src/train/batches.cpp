// SPDX-License-Identifier: Apache-2.0
#include "batches.hpp"

#include <string>

#include "sft/core/activity.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"

namespace sft::train {

namespace {

/// What the first byte of a message says of the others; those of an error begin with its status.
constexpr char holds_rows = 'r', holds_error = 'e';

std::string text_of_current_error() {
  const Error error = current_error();
  return {std::string{holds_error, static_cast<char>(error.status())} + error.what()};
}

}  // namespace

Batches::Batches(const rows::PackedDataset& dataset, const rows::LoaderPlan& plan, const comm::Group& rows)
    : plan_(plan), rows_(rows) {
  if (rows.size() == 1) {
    loader_.emplace(dataset, plan);
  } else if (rows.rank() == 0) {
    row_loader_.emplace(dataset, plan);
  }
}

std::string Batches::read(std::exception_ptr& failure) {
  const Activity reading(ActivityKind::reads, "reading rows");
  try {
    return holds_rows + row_loader_->next();
  } catch (...) {
    failure = std::current_exception();
    return text_of_current_error();
  }
}

std::exception_ptr Batches::next(rows::MicroBatch& batch) {
  std::exception_ptr failure;
  std::string message;
  if (row_loader_) message = read(failure);
  if (!loader_) rows_.broadcast(message, 0);
  if (failure) return failure;
  try {
    if (loader_) {
      const Activity reading(ActivityKind::reads, "reading rows");
      batch = loader_->next();
    } else if (message.front() == holds_error) {
      throw Error(static_cast<ExitStatus>(message.at(1)), message.substr(2));
    } else {
      message.erase(0, 1);
      batch = rows::cut_packed_rows(message, plan_);
    }
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace sft::train
