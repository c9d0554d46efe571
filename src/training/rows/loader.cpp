// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/loader.hpp"

#include <algorithm>
#include <utility>

#include "rows/row_reader.hpp"
#include "sft/core/byte_pack.hpp"
#include "sft/core/read_ahead.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::rows {

namespace {

constexpr std::size_t read_ahead_bytes = std::size_t{4} << 20;
constexpr std::size_t min_read_ahead = 4;  // micro-batches

constexpr std::size_t bytes_of_cut_token = 3 * sizeof(std::int32_t) + sizeof(float);  // as in MicroBatch
constexpr std::size_t bytes_of_whole_token = sizeof(std::int32_t) + sizeof(float);    // as in Row, and packed
constexpr std::size_t bytes_of_objects = 1024;  // of a micro-batch beside its tokens, its schedules and its rows

/// Bytes of a micro-batch that has as many tokens and documents as any, the latter in the mean.
struct MicroBatchBytes {
  std::size_t cut = 0, packed = 0, whole = 0;
};

MicroBatchBytes bytes_of_micro_batch(const PackedDataset& dataset, const LoaderPlan& plan) {
  const std::int64_t num_rows = plan.rows_per_micro_batch, room = num_rows * dataset.max_length();
  const std::size_t max_tokens = plan.max_tokens > 0 ? std::min(plan.max_tokens, room) : room;
  const std::size_t cut_tokens = (plan.max_tokens > 0 ? plan.max_tokens : room) / plan.sp_size;
  const std::int64_t num_documents = num_rows * dataset.num_documents() / dataset.num_rows();
  // A rank holds two chunks of the rows at most, each of which cuts one of them in two.
  const std::size_t objects = bytes_of_objects + num_rows * sizeof(std::int64_t) + (num_rows + 2) * sizeof(RowPart);
  const std::size_t schedules =
      plan.attention_windows.size() * sequence::max_schedule_bytes(/*num_rows=*/1, num_documents, plan.sp_size);
  return {.cut = cut_tokens * bytes_of_cut_token + schedules + objects,
          .packed = max_tokens * bytes_of_whole_token + num_documents * sizeof(std::int32_t) + objects,
          .whole = room * bytes_of_whole_token};
}

/// What waits in a queue, at most.
std::size_t queue_bytes(std::size_t item_bytes) { return std::max(min_read_ahead * item_bytes, read_ahead_bytes); }

/// What the HDF5 library keeps of chunks of tokens, weights and the document table; in random order over several shards
/// hardly any of them stays.
std::size_t chunk_bytes(const PackedDataset& dataset, const LoaderPlan& plan) {
  if (plan.shuffle && dataset.files().size() > 1) return 0;
  const auto kept = [](std::size_t num_bytes) { return std::min(num_bytes, io::chunk_cache_bytes); };
  const std::size_t num_rows = dataset.num_rows();
  return 2 * kept(num_rows * dataset.max_length() * sizeof(float)) +
         kept(dataset.num_documents() * sizeof(std::int32_t)) + kept((num_rows + 1) * sizeof(std::int64_t));
}

std::size_t bytes_of(const MicroBatch& batch) {
  std::size_t bytes = bytes_of_objects + batch.tokens.size() * bytes_of_cut_token +
                      batch.rows.size() * sizeof(std::int64_t) + batch.row_parts.size() * sizeof(RowPart);
  for (const sequence::AttentionSchedule& schedule : batch.attention) {
    bytes += schedule.rounds.size() * sizeof(sequence::AttentionRound);
    for (const sequence::AttentionRound& round : schedule.rounds) {
      bytes += round.spans.size() * sizeof(sequence::AttentionSpan);
    }
  }
  return bytes;
}

std::string pack(const MicroBatchRows& batch) {
  BytePacker packer;
  packer.add(batch.counts);
  packer.add(batch.step_counts);
  packer.add_all(batch.numbers.data(), batch.numbers.size());
  for (const Row& row : batch.rows) {
    std::size_t num_tokens = 0;
    for (const std::int32_t length : row.document_lengths) num_tokens += length;
    packer.add(static_cast<std::int64_t>(row.tokens.size()));
    packer.add_all(row.document_lengths.data(), row.document_lengths.size());
    packer.add_all(row.tokens.data(), num_tokens);
    packer.add_all(row.loss_weight.data(), num_tokens);
  }
  return packer.take();
}

MicroBatchRows unpack(const std::string& bytes) {
  ByteUnpacker unpacker(bytes);
  MicroBatchRows batch;
  batch.counts = unpacker.get<BatchCounts>();
  batch.step_counts = unpacker.get<BatchCounts>();
  batch.numbers = unpacker.get_all<std::int64_t>();
  for (std::size_t i = 0; i < batch.numbers.size(); ++i) {
    Row& row = batch.rows.emplace_back();
    const std::size_t max_length = unpacker.get<std::int64_t>();
    row.document_lengths = unpacker.get_all<std::int32_t>();
    row.tokens = unpacker.get_all<std::int32_t>();
    row.loss_weight = unpacker.get_all<float>();
    row.tokens.resize(max_length);
    row.loss_weight.resize(max_length);
  }
  return batch;
}

}  // namespace

std::size_t loader_bytes(const PackedDataset& dataset, const LoaderPlan& plan) {
  const std::int64_t num_micro_batches = (plan.last_step - plan.first_step) * plan.micro_batches;
  if (num_micro_batches <= 0) return 0;
  const MicroBatchBytes one = bytes_of_micro_batch(dataset, plan);
  const auto ahead = [&](std::size_t item_bytes) {
    const std::size_t queue = queue_bytes(item_bytes);
    return std::cmp_greater(num_micro_batches, queue / item_bytes) ? queue : num_micro_batches * item_bytes;
  };
  const bool reads = plan.sharing_rank == 0, shares = plan.sharing_size > 1;
  std::size_t bytes = 0;
  if (shares) bytes += one.packed + 2 * one.cut + one.whole;  // one is cut while its user holds the last one
  if (!reads) return bytes;
  bytes += (shares ? ahead(one.packed) : ahead(one.cut) + one.cut) + one.whole + chunk_bytes(dataset, plan);
  bytes += RowOrder::memory_bytes(plan.order, dataset.num_rows(), plan.shuffle);
  bytes += plan.rows_per_step() * 4 * sizeof(std::int64_t);  // the rows of a step while they are dealt
  const RowColumns columns = columns_needed(dataset, plan);
  if (columns.lengths) bytes += dataset.num_rows() * sizeof(std::int32_t);
  if (columns.counts) bytes += dataset.num_rows() * sizeof(BatchCounts);
  return bytes;
}

struct Loader::Impl {
  Impl(const PackedDataset& dataset, const LoaderPlan& plan)
      : plan_(plan),
        queue(queue_bytes(bytes_of_micro_batch(dataset, plan).cut), bytes_of_micro_batch(dataset, plan).cut, bytes_of,
              [&dataset, this](const auto& push) {
                read_micro_batches(dataset, plan_,
                                   [&](const auto& read) { return push([&] { return cut(read(), plan_); }); });
              }) {}

  const LoaderPlan plan_;
  ReadAhead<MicroBatch> queue;
};

Loader::Loader(const PackedDataset& dataset, const LoaderPlan& plan) : impl_(std::make_unique<Impl>(dataset, plan)) {}
Loader::~Loader() = default;

MicroBatch Loader::next() { return impl_->queue.next(); }

struct RowLoader::Impl {
  Impl(const PackedDataset& dataset, const LoaderPlan& plan)
      : plan_(plan),
        queue(
            queue_bytes(bytes_of_micro_batch(dataset, plan).packed), bytes_of_micro_batch(dataset, plan).packed,
            [](const std::string& rows) { return rows.size(); },
            [&dataset, this](const auto& push) {
              read_micro_batches(dataset, plan_, [&](const auto& read) { return push([&] { return pack(read()); }); });
            }) {}

  const LoaderPlan plan_;
  ReadAhead<std::string> queue;
};

RowLoader::RowLoader(const PackedDataset& dataset, const LoaderPlan& plan)
    : impl_(std::make_unique<Impl>(dataset, plan)) {}
RowLoader::~RowLoader() = default;

std::string RowLoader::next() { return impl_->queue.next(); }

MicroBatch cut_packed_rows(const std::string& rows, const LoaderPlan& plan) { return cut(unpack(rows), plan); }

}  // namespace sft::rows
