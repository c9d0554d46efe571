// SPDX-License-Identifier: Apache-2.0
#include "data/reading.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "data/byte_pack.hpp"
#include "data/example_pipeline.hpp"
#include "data/record_reader.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"

namespace sft::data {

namespace {

constexpr std::size_t max_listed_skips = 20;

bool is_trained_on(float weight) { return weight > 0.0f; }

void count_length(LengthStatistics& lengths, std::int64_t length, bool is_first) {
  ++lengths.counts.at(std::bit_width(static_cast<std::uint64_t>(length)));
  lengths.shortest = is_first ? length : std::min(lengths.shortest, length);
  lengths.longest = std::max(lengths.longest, length);
  lengths.sum += length;
}

void add_lengths(LengthStatistics& lengths, const LengthStatistics& more, bool is_first) {
  for (std::size_t i = 0; i < lengths.counts.size(); ++i) lengths.counts[i] += more.counts[i];
  lengths.shortest = is_first ? more.shortest : std::min(lengths.shortest, more.shortest);
  lengths.longest = std::max(lengths.longest, more.longest);
  lengths.sum += more.sum;
}

/// The numbers of a summary that processes add up.
std::array<std::int64_t*, 6> counts_of(PrepareSummary& summary) {
  return {&summary.num_records,        &summary.num_skipped,  &summary.num_dropped,
          &summary.num_without_target, &summary.num_too_long, &summary.num_truncated};
}

std::array<NameCounts*, 4> names_of(RecordCensus& census) {
  return {&census.shapes, &census.ignored_fields, &census.dropped_fields, &census.roles};
}

std::array<std::int64_t*, 4> counts_of(RecordCensus& census) {
  return {&census.num_split_prompts, &census.num_ignored_masks, &census.num_empty_tool_lists,
          &census.num_unmarked_chats};
}

void pack_census(BytePacker& packer, RecordCensus& census) {
  for (const NameCounts* names : names_of(census)) {
    packer.add(std::ssize(names->by_name()));
    for (const auto& [name, count] : names->by_name()) {
      packer.add_text(name);
      packer.add(count);
    }
    packer.add(names->num_others());
  }
  for (const std::int64_t* count : counts_of(census)) packer.add(*count);
}

/// Names beyond those that are told apart are counted under a name that no record has.
void unpack_into(ByteUnpacker& unpacker, RecordCensus& census) {
  for (NameCounts* names : names_of(census)) {
    for (auto left = unpacker.get<std::int64_t>(); left > 0; --left) {
      const std::string name = unpacker.get_text();
      names->add(name, unpacker.get<std::int64_t>());
    }
    if (const auto num_others = unpacker.get<std::int64_t>(); num_others > 0) names->add("...", num_others);
  }
  for (std::int64_t* count : counts_of(census)) *count += unpacker.get<std::int64_t>();
}

/// Why a process could not go on, and at which batch of records.
struct Failure {
  std::int64_t batch = std::numeric_limits<std::int64_t>::max();
  ExitStatus status = ExitStatus::done;
  std::string text;
};

/// Reads all inputs and stores the documents of this process's share of the records.
class Reading {
 public:
  Reading(const PrepareOptions& options, const ExampleMaker& maker, const std::vector<InputGroup>& groups, Share share,
          DocumentStore& documents)
      : options_(options), maker_(maker), groups_(groups), share_(share), documents_(documents) {}

  void run(const PrepareProgress& progress) {
    const std::int64_t total_bytes = total_size_bytes(groups_);
    std::int64_t done_bytes = 0;
    const auto advance = [&](std::int64_t num_bytes) {
      done_bytes += num_bytes;
      progress("reading", total_bytes == 0 ? done_bytes : std::min(done_bytes, total_bytes), total_bytes);
    };
    const int num_cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    ExamplePipeline pipeline(maker_, options_.num_threads == 0 ? num_cores : options_.num_threads, share_,
                             summary_.census, [this](MadeExample&& example) { take(std::move(example)); });
    for (const InputGroup& group : groups_) {
      for (const std::string& file : group.files) {
        files_.push_back(display_name(file));
        RecordReader reader(file, advance);
        NumberedRecord record;
        record.file = files_.size() - 1;
        try {
          while (reader.next(record.raw)) pipeline.add(std::exchange(record, {.raw = {}, .file = record.file}));
        } catch (const std::invalid_argument& reason) {
          pipeline.finish();  // earlier records may be bad too
          batch_ = pipeline.num_batches();
          refuse(record.file, record.raw.line, reason.what());
        }
      }
      pipeline.finish();
      batches_end_of_group_.push_back(pipeline.num_batches());
    }
  }

  /// run(), whose errors become text.
  Failure try_run(const PrepareProgress& progress) {
    try {
      run(progress);
      return {};
    } catch (const std::exception&) {
      const Error error = current_error();
      return {batch_, error.status(), error.what()};
    }
  }

  /// What other processes need to know of this one.
  [[nodiscard]] std::string pack(const Failure& failure) {
    BytePacker packer;
    packer.add(failure.batch);
    packer.add(failure.status);
    packer.add_text(failure.text);
    for (const std::int64_t* count : counts_of(summary_)) packer.add(*count);
    packer.add(summary_.lengths);
    pack_census(packer, summary_.census);
    packer.add(std::ssize(skipped_));
    for (const auto& [batch, text] : skipped_) {
      packer.add(batch);
      packer.add_text(text);
    }
    packer.add_all(num_documents_of_batch_.data(), num_documents_of_batch_.size());
    packer.add_text(share_.size > 1 && failure.text.empty() ? documents_.finish() : "");
    return packer.take();
  }

  [[nodiscard]] const std::vector<std::int64_t>& batches_end_of_group() const { return batches_end_of_group_; }

 private:
  [[nodiscard]] std::string place_of(std::size_t file, std::int64_t line) const {
    return fmt::format("{}:{}", files_[file], line);
  }

  [[noreturn]] void refuse(std::size_t file, std::int64_t line, const std::string& why) const {
    throw_data_error(place_of(file, line) + ": bad record", why,
                     options_.skip_bad_records ? "correct the file" : "correct or remove it, or give --on_error skip");
  }

  void take(MadeExample&& example) {
    batch_ = example.batch;
    const auto length = static_cast<std::int64_t>(example.document.tokens.size());
    const bool cuts = truncates(options_.packing_strategy) && options_.max_length != PrepareOptions::no_max_length;
    const std::int64_t kept = cuts ? std::min(length, options_.max_length) : length;
    if (example.refusal.empty() && !std::in_range<std::int32_t>(kept)) {
      example.refusal = "it has more than 2147483647 tokens";
    }
    if (!example.refusal.empty()) {
      if (!options_.skip_bad_records) refuse(example.file, example.line, example.refusal);
      ++summary_.num_skipped;
      if (skipped_.size() < max_listed_skips) {
        skipped_.emplace_back(batch_, fmt::format("{}: {}", place_of(example.file, example.line), example.refusal));
      }
      return;
    }
    Document& document = example.document;
    count_length(summary_.lengths, length, summary_.num_records == 0);
    ++summary_.num_records;
    if (kept < length) ++summary_.num_too_long;
    if (options_.keep_end) {
      document.tokens.erase(document.tokens.begin(), document.tokens.end() - kept);
      document.loss_weight.erase(document.loss_weight.begin(), document.loss_weight.end() - kept);
    }
    const auto begin = document.loss_weight.begin();
    const bool has_later_label = std::any_of(begin + std::min<std::int64_t>(1, kept), begin + kept, is_trained_on);
    const bool has_label = has_later_label || (kept > 0 && is_trained_on(*begin));
    if (!has_later_label) ++summary_.num_without_target;
    if (kept == 0 || (options_.packing_strategy == PackingStrategy::none && cuts && !has_label)) {
      ++summary_.num_dropped;
      return;
    }
    if (kept < length) ++summary_.num_truncated;
    documents_.append(document, kept);
    const std::size_t own_batch = batch_ / share_.size;
    if (num_documents_of_batch_.size() <= own_batch) num_documents_of_batch_.resize(own_batch + 1);
    ++num_documents_of_batch_[own_batch];
  }

  const PrepareOptions& options_;
  const ExampleMaker& maker_;
  const std::vector<InputGroup>& groups_;
  const Share share_;
  DocumentStore& documents_;
  PrepareSummary summary_;                                     ///< of this process's share
  std::vector<std::pair<std::int64_t, std::string>> skipped_;  ///< batch, and where and why
  std::vector<std::string> files_;
  std::int64_t batch_ = 0;                            ///< that records were taken from last
  std::vector<std::int64_t> num_documents_of_batch_;  ///< of the share's batches
  std::vector<std::int64_t> batches_end_of_group_;
};

/// What the processes of a team tell each other, in the order of their ranks, put together.
class Joining {
 public:
  Joining(const std::vector<std::string>& messages, PrepareSummary& summary) : summary_(summary) {
    for (const std::string& message : messages) add(message);
    if (first_failure_.status != ExitStatus::done) throw Error(first_failure_.status, first_failure_.text);
    std::ranges::stable_sort(skipped_, {}, &std::pair<std::int64_t, std::string>::first);
    for (auto& [batch, text] : skipped_) {
      if (summary.skipped.size() < max_listed_skips) summary.skipped.push_back(std::move(text));
    }
  }

  /// Documents of the batches [begin, end), in order.
  [[nodiscard]] std::int64_t count(std::int64_t begin, std::int64_t end) const {
    std::int64_t num_documents = 0;
    for (std::int64_t batch = begin; batch < end; ++batch) num_documents += count(batch);
    return num_documents;
  }
  [[nodiscard]] std::vector<DocumentRun> order(std::int64_t num_batches) const {
    std::vector<DocumentRun> runs;
    for (std::int64_t batch = 0; batch < num_batches; ++batch) runs.push_back({owner(batch), count(batch)});
    return runs;
  }
  [[nodiscard]] const std::vector<std::string>& tables() const { return tables_; }

 private:
  [[nodiscard]] std::size_t owner(std::int64_t batch) const { return batch % num_documents_of_batch_.size(); }
  [[nodiscard]] std::int64_t count(std::int64_t batch) const {
    const std::vector<std::int64_t>& of_owner = num_documents_of_batch_[owner(batch)];
    const std::size_t own_batch = batch / num_documents_of_batch_.size();
    return own_batch < of_owner.size() ? of_owner[own_batch] : 0;
  }

  void add(const std::string& message) {
    ByteUnpacker unpacker(message);
    Failure failure;
    failure.batch = unpacker.get<std::int64_t>();
    failure.status = unpacker.get<ExitStatus>();
    failure.text = unpacker.get_text();
    if (failure.status != ExitStatus::done && failure.batch < first_failure_.batch) first_failure_ = failure;
    const std::int64_t records_before = summary_.num_records;
    for (std::int64_t* count : counts_of(summary_)) *count += unpacker.get<std::int64_t>();
    const auto lengths = unpacker.get<LengthStatistics>();
    if (summary_.num_records > records_before) add_lengths(summary_.lengths, lengths, records_before == 0);
    unpack_into(unpacker, summary_.census);
    for (auto left = unpacker.get<std::int64_t>(); left > 0; --left) {
      const auto batch = unpacker.get<std::int64_t>();
      skipped_.emplace_back(batch, unpacker.get_text());
    }
    num_documents_of_batch_.push_back(unpacker.get_all<std::int64_t>());
    tables_.push_back(unpacker.get_text());
  }

  PrepareSummary& summary_;
  Failure first_failure_;
  std::vector<std::pair<std::int64_t, std::string>> skipped_;
  std::vector<std::vector<std::int64_t>> num_documents_of_batch_;  ///< by rank, of its own batches
  std::vector<std::string> tables_;
};

}  // namespace

void agree_or_drop(std::optional<DocumentStore>& part, const Team& team, const std::function<void()>& work) {
  try {
    team.agree(work);
  } catch (...) {
    part.reset();
    static_cast<void>(team.all_gather(""));
    throw;
  }
}

ReadDocuments read_documents(const PrepareOptions& options, const ExampleMaker& maker,
                             const std::vector<InputGroup>& groups, const Team& team, const PrepareProgress& progress,
                             PrepareSummary& summary) {
  const bool is_alone = team.size() == 1;
  std::optional<DocumentStore> mine;
  team.agree([&] {
    mine.emplace(is_alone ? DocumentStore(options.output)
                          : DocumentStore::make_shared(shared_documents_path(options.output, team.rank())));
  });
  Reading reading(options, maker, groups, {team.rank(), team.size()}, *mine);
  Failure failure;
  if (is_alone) {
    reading.run(progress);
  } else {
    failure = reading.try_run(progress);
  }
  const std::vector<std::string> messages = team.all_gather(reading.pack(failure));
  ReadDocuments read;
  agree_or_drop(mine, team, [&] {
    const Joining joined(messages, summary);
    std::int64_t begin = 0;
    for (const std::int64_t end : reading.batches_end_of_group()) {
      read.num_of_group.push_back(joined.count(begin, end));
      begin = end;
    }
    if (is_alone) {
      read.documents.emplace(std::move(*mine));
    } else {
      read.documents.emplace(DocumentStore::join(joined.tables(), joined.order(begin)));
      read.shared_part.emplace(std::move(*mine));
    }
  });
  return read;
}

}  // namespace sft::data
