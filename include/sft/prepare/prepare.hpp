// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole way from files of records to packed shard files: what sft-prepare does.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sft/prepare/example.hpp"
#include "sft/prepare/input_slice.hpp"
#include "sft/prepare/packing.hpp"
#include "sft/prepare/team.hpp"

namespace sft::prepare {

struct PrepareOptions {
  static constexpr std::int64_t no_max_length = 0;

  std::vector<std::string> inputs;  ///< files, globs of them, and "-" for standard input
  /// The group of files that each of `inputs` belongs to, numbered from 0 without gaps. Empty: each is one.
  std::vector<std::size_t> input_groups = {};
  /// The files among `inputs` that stand in for others, such as JSON lines made of a Parquet file, and the names of
  /// these: messages name them. Record n of the file stands on its line n.
  std::map<std::string, std::string> stands_for = {};
  std::string source = {};  ///< what the shards say that they were made of; empty: the inputs
  /// Shares of the groups, one for each, in records: of every group so many of its first records are taken that the
  /// shares hold and one group is used up. Empty: all of all.
  std::vector<double> input_weights = {};
  /// The part of each input that is taken, in records, before shares are. Empty: all of all.
  std::vector<InputSlice> input_slices = {};
  std::string output;  ///< folder
  TextOptions text = {};
  ExampleOptions example = {};
  std::int64_t max_length = 1024;  ///< no_max_length (without packing): rows as long as the longest document
  bool keep_end = false;           ///< without packing: of a document that is too long its end is kept, not its start
  PackingStrategy packing_strategy = PackingStrategy::bfd;
  PackingBlocks packing_blocks = {};
  std::int64_t pad_to_multiple_of = 1;  ///< rows are padded to its next multiple at or above max_length
  std::int64_t num_shards = 0;          ///< 0: as few as hold at most 1 GiB each before compression
  bool shuffle_dataset = false;         ///< documents, and with packing then rows, in random order
  std::uint64_t seed = 42;
  double eval_split = 0.0;  ///< held back for evaluation: below 1 a share of the documents, else their number
  bool skip_bad_records = false;
  int num_threads = 0;  ///< that make tokens; 0: one for each core. The result is always the same.
};

/// What became of the documents of one split.
struct SplitSummary {
  std::string split;                   ///< "train" or "eval"
  std::int64_t num_documents = 0;      ///< written; under `wrapped` every row is one
  std::int64_t num_tokens = 0;         ///< written, padding excluded
  std::int64_t num_target_tokens = 0;  ///< of these, trained on
  std::int64_t num_rows = 0;
  std::int64_t num_padding_tokens = 0;
  std::vector<std::string> files;

  /// Share of all positions that hold a token, 0 to 1.
  [[nodiscard]] double packing_efficiency() const;
};

/// Lengths of the documents in tokens, before any is cut.
struct LengthStatistics {
  std::array<std::int64_t, 33> counts{};  ///< [b]: of lengths in [2^(b-1), 2^b); [0]: of length 0
  std::int64_t shortest = 0, longest = 0, sum = 0;
};

struct PrepareSummary {
  std::int64_t num_records = 0;      ///< read and understood
  std::int64_t num_skipped = 0;      ///< that were not understood, with skip_bad_records
  std::vector<std::string> skipped;  ///< the first 20 of these: FILE:LINE: why
  std::int64_t num_dropped = 0;      ///< records without a token, and without packing those with no label in max_length
  std::int64_t num_without_target = 0;  ///< records that nothing is trained on within max_length, dropped ones included
  std::int64_t num_too_long = 0;        ///< records that max_length cuts, dropped ones included
  std::int64_t num_truncated = 0;       ///< documents cut at max_length
  std::int64_t num_left_out = 0;        ///< documents that input_weights and input_slices leave out
  std::int64_t row_length = 0;          ///< padding included: the max_length of the files
  LengthStatistics lengths;
  RecordCensus census;
  std::int64_t num_kept_shards = 0;  ///< that an earlier call had finished
  std::vector<SplitSummary> splits;  ///< train, then eval where something is held back

  [[nodiscard]] const SplitSummary& train() const { return splits.front(); }
};

/// Called with what is under way ("reading", in bytes; "writing", in rows), how much of it is done, and how much there
/// is in all: 0 when that is not known, as of a pipe.
using PrepareProgress = std::function<void(const char* stage, std::int64_t done, std::int64_t total)>;

/// Reads, tokenizes, packs and writes OUTPUT/train-00000.h5 ... and OUTPUT/eval-00000.h5 ... Rows and their order are
/// those of TRL 1.16 (SFTTrainer) with the same options; `balanced` and other blocks than its own are not its. Refuses
/// impossible options (configuration Error), and, as data Errors, bad records by file and line, a file named twice,
/// inputs without a target, a folder that holds train-*.h5 or eval-*.h5 already, and one that another sft-prepare
/// writes to. Tokens wait in a temporary file on the disk of OUTPUT, 4 bytes per token, which no way out leaves behind;
/// memory holds lengths and places, about 80 bytes per document, and a few MiB.
///
/// A team of processes that all see the inputs and OUTPUT makes the same files as one: each makes the tokens of its
/// share of the records and writes its share of the shards. Every process gets the summary, which counts what all did;
/// `progress` counts what its own process did.
///
/// Where an earlier call with the same options and inputs was interrupted or failed while it wrote shards, those that
/// it finished are kept: they lie in OUTPUT under names ending in .tmp until all are named together.
PrepareSummary prepare(const PrepareOptions& options, const PrepareProgress& progress, const Team& team = Team());

}  // namespace sft::prepare
