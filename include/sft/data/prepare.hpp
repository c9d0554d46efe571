// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole way from JSON-lines files to packed shard files: what sft-prepare does.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sft/data/example.hpp"
#include "sft/data/packing.hpp"

namespace sft::data {

struct PrepareOptions {
  std::vector<std::string> inputs;  ///< paths, globs, and "-" for standard input
  std::string output;               ///< folder
  std::string tokenizer = "byte";
  std::int64_t max_length = 1024;
  PackingStrategy packing_strategy = PackingStrategy::bfd;
  ExampleOptions example = {};
  std::int64_t pad_to_multiple_of = 1;  ///< rows are padded to its next multiple at or above max_length
  int sp_size = 1;                      ///< ranks that will share a row: it is padded to what they can (RowCut)
  std::int64_t num_shards = 0;          ///< 0: as few as hold at most 1 GiB each before compression
  bool shuffle_dataset = false;         ///< documents in random order before they are packed
  std::uint64_t seed = 42;
};

struct PrepareSummary {
  std::int64_t num_records = 0;        ///< read
  std::int64_t num_dropped = 0;        ///< records without a target within max_length
  std::int64_t num_too_long = 0;       ///< records that max_length cuts, dropped ones included
  std::int64_t num_truncated = 0;      ///< documents cut at max_length
  std::int64_t num_documents = 0;      ///< written; under `wrapped` every row is one
  std::int64_t num_tokens = 0;         ///< written, padding excluded
  std::int64_t num_target_tokens = 0;  ///< of these, trained on
  std::int64_t num_rows = 0;
  std::int64_t row_length = 0;  ///< padding included: the max_length of the files
  std::int64_t num_padding_tokens = 0;
  std::vector<std::string> files;
  RecordCensus census;  ///< roles, and fields that were ignored

  /// Share of all positions that hold a token, 0 to 1.
  [[nodiscard]] double packing_efficiency() const;
};

/// Called with what is under way ("reading", in bytes; "writing", in rows), how much of it is done, and how much there
/// is in all: 0 when that is not known, as of a pipe.
using PrepareProgress = std::function<void(const char* stage, std::int64_t done, std::int64_t total)>;

/// Reads, tokenizes, packs and writes OUTPUT/train-00000.h5 ... Records without a target are dropped where the strategy
/// cuts documents; `bfd_split` and `wrapped` keep every token. Refuses impossible options (configuration Error), and,
/// as data Errors, bad records by file and line, a file named twice, inputs without a target, and a folder that holds
/// train-*.h5 already. Tokens wait in a temporary file on the disk of OUTPUT, 4 bytes per token, which no way out
/// leaves behind; memory holds lengths and places, about 60 bytes per document, and a few MiB.
PrepareSummary prepare(const PrepareOptions& options, const PrepareProgress& progress);

}  // namespace sft::data
