// SPDX-License-Identifier: Apache-2.0
#include "prepare/reading.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "prepare/example_pipeline.hpp"
#include "prepare/input_spans.hpp"
#include "prepare/reading_results.hpp"
#include "prepare/record_reader.hpp"
#include "sft/core/program.hpp"

namespace sft::prepare {

namespace {

bool is_trained_on(float weight) { return weight > 0.0f; }

void count_length(LengthStatistics& lengths, std::int64_t length, bool is_first) {
  ++lengths.counts.at(std::bit_width(static_cast<std::uint64_t>(length)));
  lengths.shortest = is_first ? length : std::min(lengths.shortest, length);
  lengths.longest = std::max(lengths.longest, length);
  lengths.sum += length;
}

/// Reads the spans of one process and stores the documents of its share of their records.
class Reading {
 public:
  Reading(const PrepareOptions& options, const ExampleMaker& maker, const std::vector<InputSpan>& spans, Share team,
          DocumentStore& documents)
      : options_(options), maker_(maker), spans_(spans), team_(team), documents_(documents) {
    results_.spans.resize(spans.size());
  }

  /// An error does not leave it: it is in the results.
  ReadingResults run(const PrepareProgress& progress) {
    Failure& failure = results_.failure;
    try {
      read_all(progress);
      if (team_.size > 1) results_.table = documents_.finish();
    } catch (const RefusedRecord&) {
      failure.status = ExitStatus::data;
      failure.is_of_record = true;
    } catch (const std::exception&) {
      const Error error = current_error();
      failure = {.status = error.status(), .refusal = {.place = failure.refusal.place, .why = error.what()}};
    }
    return std::move(results_);
  }

 private:
  struct RefusedRecord {};

  void read_all(const PrepareProgress& progress) {
    const std::int64_t total_bytes = num_bytes_read(spans_, team_.rank);
    std::int64_t done_bytes = 0;
    const auto advance = [&](std::int64_t num_bytes) {
      done_bytes += num_bytes;
      progress("reading", total_bytes == 0 ? done_bytes : std::min(done_bytes, total_bytes), total_bytes);
    };
    const int num_cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    ExamplePipeline pipeline(maker_, options_.num_threads == 0 ? num_cores : options_.num_threads,
                             results_.summary.census, [this](MadeExample&& example) { take(std::move(example)); });
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      if (spans_[i].is_read_by(team_.rank)) read_span(i, pipeline, advance);
    }
    pipeline.finish();
  }

  void read_span(std::size_t number, ExamplePipeline& pipeline, const std::function<void(std::int64_t)>& advance) {
    const InputSpan& span = spans_[number];
    pipeline.begin_span(number, span.reader == InputSpan::everyone ? team_ : Share());
    std::optional<RecordReader> reader;
    RawRecord record;
    const auto next = [&] {
      try {
        if (!reader && span.is_part) reader.emplace(span.input, span.range, advance);
        if (!reader) reader.emplace(span.input, advance);
        return reader->next(record);
      } catch (const std::invalid_argument& reason) {
        end_at_unreadable(number, pipeline);
        refuse(record.line, reason.what());
      } catch (const std::exception&) {
        end_at_unreadable(number, pipeline);
        throw;
      }
    };
    while (next()) pipeline.add(std::exchange(record, {}));
    results_.spans[number].num_lines = reader->num_lines();
  }

  /// Records before the place that cannot be read may be bad too.
  void end_at_unreadable(std::size_t span, ExamplePipeline& pipeline) {
    pipeline.finish();
    results_.failure.refusal.place = {span, pipeline.num_batches()};
  }

  [[noreturn]] void refuse(std::int64_t line, const std::string& why) {
    results_.failure.refusal.line = line;
    results_.failure.refusal.why = why;
    throw RefusedRecord();
  }

  void take(MadeExample&& example) {
    PrepareSummary& summary = results_.summary;
    const BatchPlace place = {example.span, example.batch};
    results_.failure.refusal.place = place;
    const auto length = static_cast<std::int64_t>(example.document.tokens.size());
    const bool cuts = truncates(options_.packing_strategy) && options_.max_length != PrepareOptions::no_max_length;
    const std::int64_t kept = cuts ? std::min(length, options_.max_length) : length;
    if (example.refusal.empty() && !std::in_range<std::int32_t>(kept)) {
      example.refusal = "it has more than 2147483647 tokens";
    }
    if (!example.refusal.empty()) {
      if (!options_.skip_bad_records) refuse(example.line, example.refusal);
      ++summary.num_skipped;
      if (results_.skipped.size() < max_listed_skips) {
        results_.skipped.push_back({place, example.line, std::move(example.refusal)});
      }
      return;
    }
    Document& document = example.document;
    count_length(summary.lengths, length, summary.num_records == 0);
    ++summary.num_records;
    if (kept < length) ++summary.num_too_long;
    if (options_.keep_end) {
      document.tokens.erase(document.tokens.begin(), document.tokens.end() - kept);
      document.loss_weight.erase(document.loss_weight.begin(), document.loss_weight.end() - kept);
    }
    const auto begin = document.loss_weight.begin();
    const bool has_later_label = std::any_of(begin + std::min<std::int64_t>(1, kept), begin + kept, is_trained_on);
    const bool has_label = has_later_label || (kept > 0 && is_trained_on(*begin));
    if (!has_later_label) ++summary.num_without_target;
    if (kept == 0 || (options_.packing_strategy == PackingStrategy::none && cuts && !has_label)) {
      ++summary.num_dropped;
      return;
    }
    if (kept < length) ++summary.num_truncated;
    documents_.append(document, kept);
    count_document(place);
  }

  void count_document(BatchPlace place) {
    std::vector<std::int64_t>& counts = results_.spans[place.span].num_documents;
    const std::size_t own_batch = spans_[place.span].reader == InputSpan::everyone ? place.batch / team_.size : 0;
    if (counts.size() <= own_batch) counts.resize(own_batch + 1);
    ++counts[own_batch];
  }

  const PrepareOptions& options_;
  const ExampleMaker& maker_;
  const std::vector<InputSpan>& spans_;
  const Share team_;
  DocumentStore& documents_;
  ReadingResults results_;
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
  const std::vector<InputSpan> spans = divide_inputs(groups, team);
  std::optional<DocumentStore> mine;
  team.agree([&] {
    mine.emplace(is_alone ? DocumentStore(options.output)
                          : DocumentStore::make_shared(shared_documents_path(options.output, team.rank())));
  });
  const ReadingResults results = Reading(options, maker, spans, {team.rank(), team.size()}, *mine).run(progress);
  const std::vector<std::string> messages = team.all_gather(pack(results));
  ReadDocuments read;
  agree_or_drop(mine, team, [&] {
    const JoinedResults joined(spans, messages, options, summary);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      read.num_of_group.push_back(joined.num_documents(group));
    }
    if (is_alone) {
      read.documents.emplace(std::move(*mine));
    } else {
      read.documents.emplace(DocumentStore::join(joined.tables(), joined.order()));
      read.shared_part.emplace(std::move(*mine));
    }
  });
  return read;
}

}  // namespace sft::prepare
