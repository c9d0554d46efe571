// SPDX-License-Identifier: Apache-2.0
#include "sft/data/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::data {

namespace {
constexpr std::size_t max_steps_ahead = 2;
}  // namespace

std::size_t loader_bytes(const PackedDataset& dataset, const LoaderPlan& plan) {
  // Beside those that are ready, one step is being read and one is trained on.
  const auto num_steps = std::min(static_cast<std::int64_t>(max_steps_ahead) + 2, plan.last_step - plan.first_step);
  if (num_steps <= 0) return 0;
  const std::int64_t length = dataset.max_length();
  const std::int64_t num_cut_rows = num_steps * plan.micro_batches * plan.rows_per_micro_batch;
  constexpr std::int64_t cut_bytes_per_token = 3 * sizeof(std::int32_t) + sizeof(float);  // as in MicroBatch
  constexpr std::int64_t whole_bytes_per_token = sizeof(std::int32_t) + sizeof(float);    // as in Row
  const std::int64_t schedules =
      num_steps * plan.micro_batches *
      sequence::max_schedule_bytes(
          /*num_rows=*/1, plan.rows_per_micro_batch * dataset.num_documents() / dataset.num_rows(), plan.sp_size);
  const std::int64_t cut = num_cut_rows * (length / plan.sp_size) * cut_bytes_per_token + schedules;
  const std::int64_t whole = plan.rows_per_micro_batch * length * whole_bytes_per_token;
  // Of tokens, weights and the document table; in random order over several shards hardly any chunk stays.
  const bool keeps_chunks = !plan.shuffle || dataset.files().size() == 1;
  const auto kept = [](std::int64_t num_bytes) {
    return std::min(num_bytes, static_cast<std::int64_t>(io::chunk_cache_bytes));
  };
  const std::int64_t column_bytes = dataset.num_rows() * dataset.max_length() * std::int64_t{sizeof(float)};
  const std::int64_t table_bytes = kept(dataset.num_documents() * std::int64_t{sizeof(std::int32_t)}) +
                                   kept((dataset.num_rows() + 1) * std::int64_t{sizeof(std::int64_t)});
  const std::int64_t chunks = keeps_chunks ? 2 * kept(column_bytes) + table_bytes : 0;
  const auto order = static_cast<std::int64_t>(RowOrder::memory_bytes(dataset.num_rows(), plan.shuffle));
  return static_cast<std::size_t>(cut + whole + chunks + order);
}

struct Loader::Impl {
  Impl(const PackedDataset& dataset, const LoaderPlan& plan)
      : dataset_(dataset), plan_(plan), order_(dataset.num_rows(), plan.shuffle, plan.seed) {
    thread_ = std::jthread([this](const std::stop_token& stop) { read_ahead(stop); });
  }

  StepBatch next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || finished_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      ensure(false, "the loader is not asked for a step past its last");
    }
    StepBatch batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
  }

 private:
  /// The thread: reads steps in order while there is room, until done, stopped or failed.
  void read_ahead(const std::stop_token& stop) {
    try {
      for (std::int64_t step = plan_.first_step; step < plan_.last_step && !stop.stop_requested(); ++step) {
        StepBatch batch = read_step(step);
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [this] { return ready_.size() < max_steps_ahead; })) break;
        ready_.push_back(std::move(batch));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  StepBatch read_step(std::int64_t step) {
    const std::int64_t rows_per_micro_step = plan_.rows_per_micro_batch * plan_.data_size;
    const std::int64_t effective_batch = rows_per_micro_step * plan_.micro_batches;
    StepBatch batch;
    for (std::int64_t micro = 0; micro < plan_.micro_batches; ++micro) {
      const std::int64_t first =
          step * effective_batch + micro * rows_per_micro_step + plan_.data_rank * plan_.rows_per_micro_batch;
      std::vector<Row> rows;
      for (std::int64_t i = 0; i < plan_.rows_per_micro_batch; ++i) {
        rows.push_back(read_row(first + i, batch.rows));
      }
      const BatchCounts counts = count_rows(rows);
      batch.counts.num_tokens += counts.num_tokens;
      batch.counts.num_target_tokens += counts.num_target_tokens;
      batch.counts.weight_sum += counts.weight_sum;
      batch.counts.length_squares += counts.length_squares;
      batch.micro_batches.push_back(cut_rows(rows, plan_.sp_size, plan_.sp_rank));
    }
    return batch;
  }

  /// The row at a position of the order; its number in file order goes to `numbers`. Past the end of one pass: an empty
  /// row, without a number.
  Row read_row(std::int64_t position, std::vector<std::int64_t>& numbers) {
    if (plan_.one_pass && position >= dataset_.num_rows()) return {};
    numbers.push_back(order_.row_at(position));
    return dataset_.read_row(numbers.back());
  }

  const PackedDataset& dataset_;
  const LoaderPlan plan_;
  RowOrder order_;  // the thread's own

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::deque<StepBatch> ready_;
  bool finished_ = false;
  std::exception_ptr error_;

  std::jthread thread_;  // last: it stops and joins before what it uses is gone
};

Loader::Loader(const PackedDataset& dataset, const LoaderPlan& plan) : impl_(std::make_unique<Impl>(dataset, plan)) {}
Loader::~Loader() = default;

StepBatch Loader::next() { return impl_->next(); }

}  // namespace sft::data
