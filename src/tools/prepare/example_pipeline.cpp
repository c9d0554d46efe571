// SPDX-License-Identifier: Apache-2.0
#include "prepare/example_pipeline.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace sft::prepare {

namespace {

// A batch costs a thread about a millisecond; the borders depend on the records alone, as does what the census counts.
constexpr std::size_t max_batch_records = 64;
constexpr std::size_t max_batch_bytes = 1 << 16;
constexpr std::size_t max_waiting_bytes = 8 << 20;

struct Batch {
  std::size_t span = 0;
  std::int64_t number = 0;  ///< in the span
  std::vector<RawRecord> records;
  std::size_t num_bytes = 0;
  std::vector<MadeExample> examples;
  RecordCensus census;
  std::exception_ptr error;
  bool is_done = false;
};

void make_examples(Batch& batch, const ExampleMaker& maker) {
  try {
    batch.examples.reserve(batch.records.size());
    for (RawRecord& record : batch.records) {
      MadeExample example = {
          .span = batch.span, .batch = batch.number, .line = record.line, .document = {}, .refusal = {}};
      try {
        example.document = maker.make(std::move(record.text), batch.census);
      } catch (const std::invalid_argument& reason) {
        example.refusal = reason.what();
      }
      batch.examples.push_back(std::move(example));
    }
  } catch (...) {
    batch.error = std::current_exception();
  }
  batch.records.clear();
}

}  // namespace

struct ExamplePipeline::Impl {
  Impl(const ExampleMaker& maker_to_use, int num_threads_to_use, RecordCensus& census_to_fill, Take take_them)
      : maker(maker_to_use), num_threads(num_threads_to_use), census(census_to_fill), take(std::move(take_them)) {
    for (int i = 0; num_threads > 1 && i < num_threads; ++i) threads.emplace_back([this] { work(); });
  }
  ~Impl() {
    {
      const std::scoped_lock lock(mutex);
      is_stopping = true;
    }
    has_work.notify_all();
    threads.clear();  // joins
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      has_work.wait(lock, [this] { return is_stopping || !unmade.empty(); });
      if (is_stopping) return;
      const std::shared_ptr<Batch> batch = unmade.front();
      unmade.pop_front();
      lock.unlock();
      make_examples(*batch, maker);
      lock.lock();
      batch->is_done = true;
      has_result.notify_one();
    }
  }

  void deliver(Batch& batch) {
    for (MadeExample& example : batch.examples) take(std::move(example));
    census.add(batch.census);
    if (batch.error) std::rethrow_exception(batch.error);
  }

  void submit() {
    if (filling->records.empty()) return;
    filling->span = span;
    filling->number = num_batches++;
    if (filling->number % share.size != share.rank) {
      *filling = Batch();
      return;
    }
    const std::shared_ptr<Batch> batch = std::exchange(filling, std::make_shared<Batch>());
    if (threads.empty()) {
      make_examples(*batch, maker);
      deliver(*batch);
      return;
    }
    waiting_bytes += batch->num_bytes;
    in_order.push_back(batch);
    {
      const std::scoped_lock lock(mutex);
      unmade.push_back(batch);
    }
    has_work.notify_one();
    const std::size_t max_waiting = 4 * num_threads;
    while (in_order.size() > max_waiting || waiting_bytes > max_waiting_bytes) deliver_first();
  }

  void deliver_first() {
    const std::shared_ptr<Batch> batch = in_order.front();
    in_order.pop_front();
    waiting_bytes -= batch->num_bytes;
    {
      std::unique_lock lock(mutex);
      has_result.wait(lock, [&] { return batch->is_done; });
    }
    deliver(*batch);
  }

  const ExampleMaker& maker;
  const int num_threads;
  RecordCensus& census;
  Take take;
  std::size_t span = 0;
  Share share;
  std::shared_ptr<Batch> filling = std::make_shared<Batch>();
  std::deque<std::shared_ptr<Batch>> in_order;  ///< handed to the threads and not delivered yet
  std::size_t waiting_bytes = 0;                ///< text of those
  std::int64_t num_batches = 0;                 ///< of the span that were full, whoever makes them

  std::mutex mutex;  ///< guards the members below and Batch::is_done
  std::condition_variable has_work, has_result;
  std::deque<std::shared_ptr<Batch>> unmade;
  bool is_stopping = false;
  std::vector<std::jthread> threads;
};

ExamplePipeline::ExamplePipeline(const ExampleMaker& maker, int num_threads, RecordCensus& census, Take take)
    : impl_(std::make_unique<Impl>(maker, num_threads, census, std::move(take))) {}

ExamplePipeline::~ExamplePipeline() = default;

void ExamplePipeline::begin_span(std::size_t span, Share share) {
  impl_->submit();
  impl_->span = span;
  impl_->share = share;
  impl_->num_batches = 0;
}

void ExamplePipeline::add(RawRecord record) {
  Batch& batch = *impl_->filling;
  batch.num_bytes += record.text.size();
  batch.records.push_back(std::move(record));
  if (batch.records.size() >= max_batch_records || batch.num_bytes >= max_batch_bytes) impl_->submit();
}

std::int64_t ExamplePipeline::num_batches() const { return impl_->num_batches; }

void ExamplePipeline::finish() {
  impl_->submit();
  while (!impl_->in_order.empty()) impl_->deliver_first();
}

}  // namespace sft::prepare
