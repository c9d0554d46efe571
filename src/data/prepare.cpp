// SPDX-License-Identifier: Apache-2.0
#include "sft/data/prepare.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "data/json_lines.hpp"
#include "data/permutation.hpp"
#include "data/shard_writer.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::data {

namespace {

constexpr std::int64_t max_shard_bytes = std::int64_t{1} << 30;
constexpr std::int64_t bytes_per_position = sizeof(std::int32_t) + sizeof(float);

/// max_length, padded.
std::int64_t row_length_of(const PrepareOptions& options) {
  const std::int64_t step = std::lcm(options.pad_to_multiple_of, sequence::row_multiple(options.sp_size));
  return (options.max_length + step - 1) / step * step;
}

void check_options(const PrepareOptions& options) {
  constexpr std::int64_t limit = (std::int64_t{1} << 30) - 1;  // HDF5 holds chunks, of a row at least, below 4 GiB
  if (options.max_length < 2 || options.max_length > limit) {
    throw_config_error("max_length = " + std::to_string(options.max_length) + " is impossible",
                       "a row needs a token to predict from and one to predict, and is counted in 32 bits",
                       "give 2 to " + std::to_string(limit) + ", e.g. 1024");
  }
  if (options.pad_to_multiple_of < 1) {
    throw_config_error("pad_to_multiple_of = " + std::to_string(options.pad_to_multiple_of) + " is impossible",
                       "rows are padded to a multiple of it", "give 1 or more");
  }
  constexpr int max_sp_size = 1 << 15;
  if (options.sp_size < 1 || options.sp_size > max_sp_size) {
    throw_config_error("sp_size = " + std::to_string(options.sp_size) + " is impossible", "it counts ranks",
                       "give 1 to " + std::to_string(max_sp_size) + ", the parallel.sp_size of the runs to come");
  }
  if (options.pad_to_multiple_of > limit || row_length_of(options) > limit) {
    throw_config_error("pad_to_multiple_of = " + std::to_string(options.pad_to_multiple_of) + " is impossible",
                       "rows would have more than " + std::to_string(limit) + " tokens", "give less");
  }
  if (options.num_shards < 0) {
    throw_config_error("num_shards = " + std::to_string(options.num_shards) + " is impossible", "it counts files",
                       "give 1 or more, or 0 to have it chosen");
  }
}

void check_output(const std::string& folder) {
  const std::vector<std::string> old_shards = find_shards(folder);
  if (old_shards.empty()) return;
  const std::string names = old_shards.front() + (old_shards.size() > 1 ? " and more" : "");
  if (!old_shards.front().ends_with("train-00000.h5")) {
    throw_data_error("'" + folder + "' holds a part of packed data",
                     names + ", but not train-00000.h5: an sft-prepare was killed while it named its files",
                     "remove its train-*.h5 and train-*.h5.tmp");
  }
  throw_data_error("'" + folder + "' already holds packed data", names,
                   "remove its train-*.h5 or choose another folder");
}

/// Whether anything in the first `length` tokens is trained on; nothing predicts the first.
bool has_target(const Document& document, std::int64_t length) {
  return std::any_of(document.loss_weight.begin() + std::min<std::int64_t>(1, length),
                     document.loss_weight.begin() + length, [](float weight) { return weight > 0.0f; });
}

/// Whether a row has something to predict: the first token of a document, under `wrapped` of a row, is no target.
bool has_target(PackedRow row, PackingStrategy strategy, const DocumentStore& documents) {
  std::vector<std::int32_t> tokens;
  std::vector<float> weights;
  bool is_first = true;
  for (const Piece& piece : row) {
    tokens.resize(static_cast<std::size_t>(piece.length));
    weights.resize(tokens.size());
    documents.read(piece.document, piece.begin, tokens, weights);
    if (is_first || strategy != PackingStrategy::wrapped) weights.front() = 0.0f;
    if (std::ranges::any_of(weights, [](float weight) { return weight > 0.0f; })) return true;
    is_first = false;
  }
  return false;
}

/// The folder that is or will hold `folder`, as far as it is there.
std::string existing_part_of(const std::string& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder);
  while (!std::filesystem::is_directory(path) && path.has_relative_path()) path = path.parent_path();
  return path.string();
}

DocumentStore read_documents(const PrepareOptions& options, const text::Tokenizer& tokenizer,
                             const std::vector<std::string>& inputs, PrepareSummary& summary,
                             const PrepareProgress& progress) {
  const std::int64_t total_bytes = total_size_bytes(inputs);
  std::int64_t done_bytes = 0;
  const bool cuts = truncates(options.packing_strategy);
  DocumentStore documents(existing_part_of(options.output));
  const auto take = [&](const std::string& line) {
    const Document document = make_document(line, tokenizer, options.example, summary.census);
    const auto length = static_cast<std::int64_t>(document.tokens.size());
    const std::int64_t kept = cuts ? std::min(length, options.max_length) : length;
    if (!std::in_range<std::int32_t>(kept)) throw std::invalid_argument("it has more than 2147483647 tokens");
    ++summary.num_records;
    if (kept < length) ++summary.num_too_long;
    if (cuts && !has_target(document, kept)) {
      ++summary.num_dropped;
      return;
    }
    if (kept < length) ++summary.num_truncated;
    documents.append(document, kept);
  };
  const auto advance = [&](std::int64_t num_bytes) {
    done_bytes += num_bytes;
    progress("reading", total_bytes == 0 ? done_bytes : std::min(done_bytes, total_bytes), total_bytes);
  };
  for (const std::string& input : inputs) for_each_line(input, take, advance);
  return documents;
}

Packing pack_documents(const PrepareOptions& options, const DocumentStore& documents) {
  if (!options.shuffle_dataset) return pack(documents.lengths(), options.max_length, options.packing_strategy);
  const std::vector<std::int64_t> order = random_permutation(documents.size(), options.seed, 0);
  std::vector<std::int32_t> lengths;
  lengths.reserve(order.size());
  for (const std::int64_t document : order) {
    lengths.push_back(documents.lengths()[static_cast<std::size_t>(document)]);
  }
  Packing packing = pack(lengths, options.max_length, options.packing_strategy);
  for (Piece& piece : packing.pieces) piece.document = order[static_cast<std::size_t>(piece.document)];
  return packing;
}

std::int64_t choose_num_shards(const PrepareOptions& options, std::int64_t num_rows) {
  if (options.num_shards == 0) {
    const std::int64_t rows_per_shard =
        std::max<std::int64_t>(1, max_shard_bytes / (row_length_of(options) * bytes_per_position));
    return (num_rows + rows_per_shard - 1) / rows_per_shard;
  }
  if (options.num_shards > num_rows) {
    throw_config_error("num_shards = " + std::to_string(options.num_shards) + " is too many",
                       "there are only " + std::to_string(num_rows) + " rows, and every shard holds one at least",
                       "use num_shards = " + std::to_string(num_rows) + " or fewer");
  }
  return options.num_shards;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

[[noreturn]] void throw_nothing_to_train_on(const PrepareOptions& options, const PrepareSummary& summary) {
  const std::string problem = "nothing to train on in " + join(options.inputs);
  const std::map<std::string, std::int64_t>& roles = summary.census.roles.by_name();
  if (options.example.assistant_only_loss && !roles.empty() && !roles.contains("assistant")) {
    throw_data_error(problem, "assistant_only_loss trains on the role 'assistant', which none of its messages has",
                     "rename the role that answers, '" + roles.begin()->first + "' being one that is there");
  }
  throw_data_error(problem,
                   "none of its " + std::to_string(summary.num_records) +
                       " records has a target within max_length = " + std::to_string(options.max_length),
                   "check the input, or give a larger max_length");
}

}  // namespace

double PrepareSummary::packing_efficiency() const {
  const std::int64_t num_positions = num_tokens + num_padding_tokens;
  return num_positions == 0 ? 0.0 : static_cast<double>(num_tokens) / static_cast<double>(num_positions);
}

PrepareSummary prepare(const PrepareOptions& options, const PrepareProgress& progress) {
  check_options(options);
  const std::unique_ptr<text::Tokenizer> tokenizer = text::make_tokenizer(options.tokenizer);
  const std::vector<std::string> inputs = find_inputs(options.inputs);
  check_output(options.output);

  PrepareSummary summary;
  const DocumentStore documents = read_documents(options, *tokenizer, inputs, summary, progress);
  const Packing packing = pack_documents(options, documents);
  const std::vector<PackedRow>& rows = packing.rows;
  summary.num_rows = static_cast<std::int64_t>(rows.size());
  summary.row_length = row_length_of(options);
  if (std::ranges::none_of(rows, [&](PackedRow row) { return has_target(row, options.packing_strategy, documents); })) {
    throw_nothing_to_train_on(options, summary);
  }

  const ShardHeader header = {.max_length = summary.row_length,
                              .vocab_size = tokenizer->vocab_size(),
                              .pad_token_id = tokenizer->pad(),
                              .eos_token_id = tokenizer->eos(),
                              .tokenizer = tokenizer->name(),
                              .packing_strategy = options.packing_strategy,
                              .source = join(options.inputs)};
  const std::int64_t num_shards = choose_num_shards(options, summary.num_rows);
  io::make_folders(options.output);
  std::int64_t done_rows = 0;
  const auto advance = [&](std::int64_t num_rows) {
    done_rows += num_rows;
    progress("writing", done_rows, summary.num_rows);
  };
  const WrittenShards written = write_shards(options.output, header, documents, rows, num_shards, advance);
  summary.num_documents = written.num_documents;
  summary.num_tokens = written.num_tokens;
  summary.num_target_tokens = written.num_target_tokens;
  summary.num_padding_tokens = summary.num_rows * summary.row_length - written.num_tokens;
  summary.files = written.files;
  return summary;
}

}  // namespace sft::data
