// SPDX-License-Identifier: Apache-2.0
#include "prepare/reading_results.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "prepare/byte_stream.hpp"
#include "sft/core/byte_pack.hpp"

namespace sft::prepare {

namespace {

void add_lengths(LengthStatistics& lengths, const LengthStatistics& more, bool is_first) {
  for (std::size_t i = 0; i < lengths.counts.size(); ++i) lengths.counts[i] += more.counts[i];
  lengths.shortest = is_first ? more.shortest : std::min(lengths.shortest, more.shortest);
  lengths.longest = std::max(lengths.longest, more.longest);
  lengths.sum += more.sum;
}

/// The numbers of a summary that processes add up.
template <class Summary>
auto counts_of(Summary& summary) {
  return std::array{&summary.num_records,        &summary.num_skipped,  &summary.num_dropped,
                    &summary.num_without_target, &summary.num_too_long, &summary.num_truncated};
}

template <class Census>
auto names_of(Census& census) {
  return std::array{&census.shapes, &census.ignored_fields, &census.dropped_fields, &census.roles};
}

template <class Census>
auto census_counts_of(Census& census) {
  return std::array{&census.num_split_prompts, &census.num_ignored_masks,   &census.num_empty_tool_lists,
                    &census.num_plain_calls,   &census.num_hidden_contents, &census.num_unmarked_chats};
}

void pack_census(BytePacker& packer, const RecordCensus& census) {
  for (const NameCounts* names : names_of(census)) {
    packer.add(std::ssize(names->by_name()));
    for (const auto& [name, count] : names->by_name()) {
      packer.add_text(name);
      packer.add(count);
    }
    packer.add(names->num_others());
  }
  for (const std::int64_t* count : census_counts_of(census)) packer.add(*count);
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
  for (std::int64_t* count : census_counts_of(census)) *count += unpacker.get<std::int64_t>();
}

void pack_refusal(BytePacker& packer, const Refusal& refusal) {
  packer.add(refusal.place);
  packer.add(refusal.line);
  packer.add_text(refusal.why);
}

Refusal unpack_refusal(ByteUnpacker& unpacker) {
  Refusal refusal;
  refusal.place = unpacker.get<BatchPlace>();
  refusal.line = unpacker.get<std::int64_t>();
  refusal.why = unpacker.get_text();
  return refusal;
}

}  // namespace

std::string pack(const ReadingResults& results) {
  BytePacker packer;
  packer.add(results.failure.status);
  packer.add(results.failure.is_of_record);
  pack_refusal(packer, results.failure.refusal);
  for (const std::int64_t* count : counts_of(results.summary)) packer.add(*count);
  packer.add(results.summary.lengths);
  pack_census(packer, results.summary.census);
  packer.add(std::ssize(results.skipped));
  for (const Refusal& refusal : results.skipped) pack_refusal(packer, refusal);
  for (const ReadingResults::OfSpan& span : results.spans) {
    packer.add(span.num_lines);
    packer.add_all(span.num_documents.data(), span.num_documents.size());
  }
  packer.add_text(results.table);
  return packer.take();
}

JoinedResults::JoinedResults(const std::vector<InputSpan>& spans, const std::vector<std::string>& messages,
                             const PrepareOptions& options, PrepareSummary& summary)
    : spans_(spans), stands_for_(options.stands_for), summary_(summary), num_lines_(spans.size(), 0) {
  for (const std::string& message : messages) add(message);
  if (const Refusal& refusal = first_failure_.refusal; first_failure_.is_of_record) {
    throw_data_error(place_of(refusal) + ": bad record", refusal.why,
                     options.skip_bad_records ? "correct the file" : "correct or remove it, or give --on_error skip");
  }
  if (first_failure_.status != ExitStatus::done) throw Error(first_failure_.status, first_failure_.refusal.why);
  std::ranges::stable_sort(skipped_, {}, [](const Refusal& refusal) { return refusal.place.order(); });
  for (const Refusal& refusal : skipped_) {
    if (summary.skipped.size() == max_listed_skips) break;
    summary.skipped.push_back(fmt::format("{}: {}", place_of(refusal), refusal.why));
  }
}

void JoinedResults::add(const std::string& message) {
  ByteUnpacker unpacker(message);
  Failure failure;
  failure.status = unpacker.get<ExitStatus>();
  failure.is_of_record = unpacker.get<bool>();
  failure.refusal = unpack_refusal(unpacker);
  const bool is_first =
      first_failure_.status == ExitStatus::done || failure.refusal.place.order() < first_failure_.refusal.place.order();
  if (failure.status != ExitStatus::done && is_first) first_failure_ = std::move(failure);
  const std::int64_t records_before = summary_.num_records;
  for (std::int64_t* count : counts_of(summary_)) *count += unpacker.get<std::int64_t>();
  const auto lengths = unpacker.get<LengthStatistics>();
  if (summary_.num_records > records_before) add_lengths(summary_.lengths, lengths, records_before == 0);
  unpack_into(unpacker, summary_.census);
  for (auto left = unpacker.get<std::int64_t>(); left > 0; --left) skipped_.push_back(unpack_refusal(unpacker));
  std::vector<std::vector<std::int64_t>>& documents = num_documents_.emplace_back();
  for (std::int64_t& num_lines : num_lines_) {
    num_lines += unpacker.get<std::int64_t>();
    documents.push_back(unpacker.get_all<std::int64_t>());
  }
  tables_.push_back(unpacker.get_text());
}

std::string JoinedResults::place_of(const Refusal& refusal) const {
  const InputSpan& span = spans_[refusal.place.span];
  std::int64_t line = refusal.line;
  for (std::size_t i = refusal.place.span; span.is_part && spans_[i].range.begin > 0; --i) line += num_lines_[i - 1];
  const auto original = stands_for_.find(span.input);
  if (original != stands_for_.end()) return fmt::format("{}, row {}", original->second, line);
  return fmt::format("{}:{}", display_name(span.input), line);
}

std::int64_t JoinedResults::num_documents(std::size_t group) const {
  std::int64_t count = 0;
  for (const auto& of_rank : num_documents_) {
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      if (spans_[i].group == group) count += std::accumulate(of_rank[i].begin(), of_rank[i].end(), std::int64_t{0});
    }
  }
  return count;
}

std::vector<DocumentRun> JoinedResults::order() const {
  std::vector<DocumentRun> runs;
  const std::size_t team_size = num_documents_.size();
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    std::size_t most_batches = 0;
    for (const auto& of_rank : num_documents_) most_batches = std::max(most_batches, of_rank[i].size());
    for (std::size_t batch = 0; batch < most_batches; ++batch) {
      for (std::size_t rank = 0; rank < team_size; ++rank) {
        const std::vector<std::int64_t>& counts = num_documents_[rank][i];
        if (batch < counts.size()) runs.push_back({rank, counts[batch]});
      }
    }
  }
  return runs;
}

}  // namespace sft::prepare
