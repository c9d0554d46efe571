// SPDX-License-Identifier: Apache-2.0
#include "sft/data/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "data/step_rows.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::data {

std::size_t loader_bytes(const PackedDataset& dataset, const LoaderPlan& plan) {
  const std::int64_t num_micro_batches =
      std::min<std::int64_t>(2, (plan.last_step - plan.first_step) * plan.micro_batches);
  if (num_micro_batches <= 0) return 0;
  const std::int64_t length = dataset.max_length();
  constexpr std::int64_t cut_bytes_per_token = 3 * sizeof(std::int32_t) + sizeof(float);  // as in MicroBatch
  constexpr std::int64_t whole_bytes_per_token = sizeof(std::int32_t) + sizeof(float);    // as in Row
  const std::int64_t schedule = sequence::max_schedule_bytes(
      /*num_rows=*/1, plan.rows_per_micro_batch * dataset.num_documents() / dataset.num_rows(), plan.sp_size);
  const std::int64_t max_tokens = plan.max_tokens > 0 ? plan.max_tokens : plan.rows_per_micro_batch * length;
  const std::int64_t cut = num_micro_batches * (max_tokens / plan.sp_size * cut_bytes_per_token + schedule);
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
  const auto order = static_cast<std::int64_t>(RowOrder::memory_bytes(plan.order, dataset.num_rows(), plan.shuffle));
  const std::int64_t lengths =
      StepRows::are_dealt(dataset, plan) ? dataset.num_rows() * std::int64_t{sizeof(std::int32_t)} : 0;
  const std::int64_t dealt = plan.rows_per_step() * 4 * std::int64_t{sizeof(std::int64_t)};
  return cut + whole + chunks + order + lengths + dealt;
}

struct Loader::Impl {
  Impl(const PackedDataset& dataset, const LoaderPlan& plan) : dataset_(dataset), plan_(plan) {
    thread_ = std::jthread([this](const std::stop_token& stop) { read_ahead(stop); });
  }

  MicroBatch next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_ || finished_; });
    if (!ready_) {
      if (error_) std::rethrow_exception(error_);
      SFT_ENSURE(false, "the loader is not asked for a step past its last");
    }
    MicroBatch batch = std::move(*ready_);
    ready_.reset();
    changed_.notify_all();
    return batch;
  }

 private:
  /// The thread: has the next micro-batch ready while its user works on one, until done, stopped or failed.
  void read_ahead(const std::stop_token& stop) {
    try {
      if (plan_.first_step < plan_.last_step) read_steps(stop);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  void read_steps(const std::stop_token& stop) {
    const bool are_dealt = StepRows::are_dealt(dataset_, plan_);
    StepRows rows(dataset_.num_rows(), plan_, are_dealt ? dataset_.row_lengths() : std::vector<std::int32_t>{});
    for (std::int64_t step = plan_.first_step; step < plan_.last_step; ++step) {
      const auto slots = rows.slots(step);
      std::vector<std::vector<std::int64_t>> mine;
      for (std::int64_t micro = 0; micro < plan_.micro_batches; ++micro) {
        mine.push_back(slots[micro * plan_.data_size + plan_.data_rank]);
      }
      if (!read_step(mine, stop)) return;
    }
  }

  /// The rows of this data rank for each micro-batch. False when stopped.
  bool read_step(const std::vector<std::vector<std::int64_t>>& rows, const std::stop_token& stop) {
    const bool is_whole = rows.size() == 1;  // then its counts are those of the rows that are read anyway
    const BatchCounts counts = is_whole ? BatchCounts{} : count_labels(rows);
    for (const std::vector<std::int64_t>& part : rows) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !ready_; })) return false;
      lock.unlock();
      MicroBatch batch = read(part);
      batch.step_counts = is_whole ? batch.counts : counts;
      lock.lock();
      ready_ = std::move(batch);
      changed_.notify_all();
    }
    return true;
  }

  /// Counts of rows that are read later: reads their labels alone.
  BatchCounts count_labels(const std::vector<std::vector<std::int64_t>>& rows) const {
    BatchCounts counts;
    for (const std::vector<std::int64_t>& part : rows) {
      for (const std::int64_t row : part) counts += count_rows({dataset_.read_labels(row)});
    }
    return counts;
  }

  MicroBatch read(const std::vector<std::int64_t>& numbers) const {
    std::vector<Row> rows;
    rows.reserve(numbers.size());
    for (const std::int64_t row : numbers) rows.push_back(dataset_.read_row(row));
    const BatchCounts counts = count_rows(rows);
    if (rows.empty()) rows.emplace_back();
    MicroBatch batch = cut_rows(rows, plan_.sp_size, plan_.sp_rank, plan_.attention_method, plan_.local_multiple);
    batch.counts = counts;
    batch.rows = numbers;
    return batch;
  }

  const PackedDataset& dataset_;
  const LoaderPlan plan_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::optional<MicroBatch> ready_;
  bool finished_ = false;
  std::exception_ptr error_;

  std::jthread thread_;  // last: it stops and joins before what it uses is gone
};

Loader::Loader(const PackedDataset& dataset, const LoaderPlan& plan) : impl_(std::make_unique<Impl>(dataset, plan)) {}
Loader::~Loader() = default;

MicroBatch Loader::next() { return impl_->next(); }

}  // namespace sft::data
