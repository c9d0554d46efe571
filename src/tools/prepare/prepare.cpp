// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/prepare.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "prepare/output_folder.hpp"
#include "prepare/prepare_options.hpp"
#include "prepare/reading.hpp"
#include "prepare/shard_writer.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/rows/permutation.hpp"
#include "sft/rows/reference_random.hpp"

namespace sft::prepare {

namespace {

constexpr std::int64_t max_shard_bytes = std::int64_t{1} << 30;
constexpr std::int64_t bytes_per_position = sizeof(std::int32_t) + sizeof(float);
/// Whether a row has something to predict: the first token of a document, under `wrapped` of a row, is no target.
bool has_target(PackedRow row, PackingStrategy strategy, const DocumentStore& documents) {
  std::vector<std::int32_t> tokens;
  std::vector<float> weights;
  bool is_first = true;
  for (const Piece& piece : row) {
    tokens.resize(piece.length);
    weights.resize(tokens.size());
    documents.read(piece.document, piece.begin, tokens, weights);
    if (is_first || strategy != PackingStrategy::wrapped) weights.front() = 0.0f;
    if (std::ranges::any_of(weights, [](float weight) { return weight > 0.0f; })) return true;
    is_first = false;
  }
  return false;
}

/// Documents of one input, by their numbers in all of them: [begin, end).
struct DocumentRange {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// The documents that are taken of every input: the first ones of its slice, as many as its share allows.
std::vector<DocumentRange> parts_of_inputs(const std::vector<std::int64_t>& num_documents,
                                           const PrepareOptions& options) {
  std::vector<DocumentRange> parts;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < num_documents.size(); ++i) {
    const InputSlice slice = options.input_slices.empty() ? InputSlice() : options.input_slices[i];
    const auto [first, end] = slice.range_of(num_documents[i]);
    if (first == end && num_documents[i] > 0) {
      throw_config_error(
          fmt::format("input_slice = {} is empty", slice.text()),
          fmt::format("input {} has {}, of which it takes none", i + 1, plural(num_documents[i], "record")),
          "give a slice that holds some, as :1000, or leave the input out");
    }
    parts.push_back({begin + first, begin + end});
    begin += num_documents[i];
  }
  const std::vector<double>& weights = options.input_weights;
  double documents_per_weight = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    documents_per_weight = std::min(documents_per_weight, static_cast<double>(parts[i].size()) / weights[i]);
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto share = static_cast<std::int64_t>(std::nearbyint(documents_per_weight * weights[i]));  // as TRL rounds
    parts[i].end = parts[i].begin + std::min(share, parts[i].size());
  }
  return parts;
}

std::vector<std::int64_t> documents_of(const std::vector<DocumentRange>& parts) {
  std::vector<std::int64_t> chosen;
  for (const DocumentRange& part : parts) {
    for (std::int64_t d = part.begin; d < part.end; ++d) chosen.push_back(d);
  }
  return chosen;
}

/// Takes those held back out of `documents` and returns them; both keep their order.
std::vector<std::int64_t> hold_back(std::vector<std::int64_t>& documents, const PrepareOptions& options) {
  const auto size = static_cast<double>(documents.size());
  const auto count =
      static_cast<std::int64_t>(options.eval_split < 1.0 ? std::ceil(size * options.eval_split) : options.eval_split);
  if (count >= std::ssize(documents)) {
    throw_config_error(fmt::format("eval_split takes {} of {} documents", count, documents.size()),
                       "none would be left to train on", "give less");
  }
  constexpr std::uint64_t stream = 1;
  const std::vector<std::int64_t> order = rows::random_permutation(std::ssize(documents), options.seed, stream);
  std::vector<bool> is_held_back(documents.size(), false);
  for (std::int64_t i = 0; i < count; ++i) is_held_back[order[i]] = true;
  std::vector<std::int64_t> held_back, rest;
  for (std::size_t i = 0; i < documents.size(); ++i) (is_held_back[i] ? held_back : rest).push_back(documents[i]);
  documents = std::move(rest);
  return held_back;
}

/// The rows of the given documents.
Packing pack_documents(const PrepareOptions& options, const DocumentStore& documents,
                       const std::vector<std::int64_t>& chosen, std::int64_t row_limit) {
  std::vector<std::int64_t> order = chosen;
  if (options.shuffle_dataset) {
    const std::vector<std::int64_t> permutation = rows::numpy_permutation(std::ssize(chosen), options.seed);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = chosen[permutation[i]];
  }
  std::vector<std::int32_t> lengths;
  lengths.reserve(order.size());
  for (const std::int64_t document : order) {
    lengths.push_back(documents.lengths()[document]);
  }
  Packing packing = pack_blocks(lengths, row_limit, options.packing_strategy, options.packing_blocks);
  for (Piece& piece : packing.pieces) piece.document = order[piece.document];
  if (options.shuffle_dataset && options.packing_strategy != PackingStrategy::none) {
    const std::vector<std::int64_t> permutation = rows::numpy_permutation(std::ssize(packing.rows), options.seed);
    std::vector<PackedRow> rows;
    rows.reserve(packing.rows.size());
    for (const std::int64_t row : permutation) rows.push_back(packing.rows[row]);
    packing.rows = std::move(rows);
  }
  return packing;
}

std::int64_t choose_num_shards(const PrepareOptions& options, std::int64_t num_rows, std::int64_t row_length) {
  if (options.num_shards == 0) {
    const std::int64_t rows_per_shard = std::max<std::int64_t>(1, max_shard_bytes / (row_length * bytes_per_position));
    return (num_rows + rows_per_shard - 1) / rows_per_shard;
  }
  if (options.num_shards > num_rows) {
    throw_config_error(fmt::format("num_shards = {} is too many", options.num_shards),
                       fmt::format("the data fill {}, and every shard holds one at least", plural(num_rows, "row")),
                       fmt::format("use num_shards = {} or fewer", num_rows));
  }
  return options.num_shards;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string source_of(const PrepareOptions& options) {
  return options.source.empty() ? join(options.inputs) : options.source;
}

[[noreturn]] void throw_no_record(const PrepareOptions& options, const PrepareSummary& summary) {
  const bool is_empty_input = summary.num_skipped == 0;
  throw_data_error("there is no record in " + source_of(options),
                   is_empty_input
                       ? "no line and no element of an array"
                       : fmt::format("all {} were skipped, such as {}", summary.num_skipped, summary.skipped.front()),
                   is_empty_input ? "name files that hold some" : "correct them, or see docs/data.md for their shapes");
}

[[noreturn]] void throw_nothing_to_train_on(const PrepareOptions& options, const PrepareSummary& summary) {
  const std::string problem = "nothing to train on in " + source_of(options);
  const std::map<std::string, std::int64_t>& roles = summary.census.roles.by_name();
  if (options.example.assistant_only_loss && !roles.empty() && !roles.contains("assistant")) {
    throw_data_error(problem, "assistant_only_loss trains on the role 'assistant', which none of its messages has",
                     fmt::format("rename the role that answers, '{}' being one that is there", roles.begin()->first));
  }
  throw_data_error(problem,
                   fmt::format("none of its {} records has a target within max_length = {}", summary.num_records,
                               options.max_length),
                   "check the input, or give a larger max_length");
}

std::string absolute_tokenizer_name(const std::string& name) {
  return name == "byte" ? name : std::filesystem::weakly_canonical(name).string();
}

}  // namespace

double SplitSummary::packing_efficiency() const {
  const std::int64_t num_positions = num_tokens + num_padding_tokens;
  return num_positions == 0 ? 0.0 : static_cast<double>(num_tokens) / static_cast<double>(num_positions);
}

PrepareSummary prepare(const PrepareOptions& options, const PrepareProgress& progress, const Team& team) {
  std::optional<ExampleMaker> maker;
  std::vector<InputGroup> groups;
  std::optional<OutputFolder> output;
  team.agree([&] {
    check_options(options);
    maker.emplace(options.text, options.example);
    groups = find_inputs(options);
    if (team.size() > 1) require_files(groups);
    if (team.rank() == 0) output.emplace(options.output);
  });

  PrepareSummary summary;
  ReadDocuments read = read_documents(options, *maker, groups, team, progress, summary);
  const DocumentStore& documents = *read.documents;
  std::vector<Packing> packings;
  std::vector<SplitRows> splits;
  agree_or_drop(read.shared_part, team, [&] {
    if (summary.num_records == 0) throw_no_record(options, summary);
    std::vector<std::int64_t> train_documents = documents_of(parts_of_inputs(read.num_of_group, options));
    summary.num_left_out = documents.size() - std::ssize(train_documents);
    std::vector<std::int64_t> eval_documents;
    if (options.eval_split > 0.0 && !train_documents.empty()) eval_documents = hold_back(train_documents, options);

    std::int64_t row_limit = options.max_length;
    if (row_limit == PrepareOptions::no_max_length) {
      row_limit =
          std::max<std::int64_t>(2, std::ranges::max(documents.lengths(), {}, [](auto length) { return length; }));
    }
    summary.row_length = padded_length(options, row_limit);
    packings.push_back(pack_documents(options, documents, train_documents, row_limit));
    if (!eval_documents.empty()) packings.push_back(pack_documents(options, documents, eval_documents, row_limit));
    for (const Packing& packing : packings) {
      if (std::ranges::none_of(packing.rows,
                               [&](PackedRow row) { return has_target(row, options.packing_strategy, documents); })) {
        throw_nothing_to_train_on(options, summary);
      }
      const std::int64_t num_rows = std::ssize(packing.rows);
      const bool is_train = splits.empty();
      splits.push_back({.split = is_train ? "train" : "eval",
                        .rows = packing.rows,
                        .num_shards = is_train ? choose_num_shards(options, num_rows, summary.row_length) : 1});
    }
  });

  const ShardHeader header = {.max_length = summary.row_length,
                              .vocab_size = maker->vocab_size(),
                              .pad_token_id = maker->pad_token_id(),
                              .eos_token_id = maker->eos_token_id(),
                              .tokenizer = absolute_tokenizer_name(maker->tokenizer().name()),
                              .tokenizer_fingerprint = maker->tokenizer().fingerprint(),
                              .markup = maker->markup(),
                              .packing_strategy = options.packing_strategy,
                              .source = source_of(options)};
  const std::vector<WrittenShards> written =
      write_shards(options.output, output ? &*output : nullptr, header, documents, splits, team, progress);
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const std::int64_t num_rows = std::ssize(splits[i].rows);
    summary.num_kept_shards += written[i].num_kept;
    summary.splits.push_back({.split = splits[i].split,
                              .num_documents = written[i].num_documents,
                              .num_tokens = written[i].num_tokens,
                              .num_target_tokens = written[i].num_target_tokens,
                              .num_rows = num_rows,
                              .num_padding_tokens = num_rows * summary.row_length - written[i].num_tokens,
                              .files = written[i].files});
  }
  return summary;
}

}  // namespace sft::prepare
