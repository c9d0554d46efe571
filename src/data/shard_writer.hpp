// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed rows -> HDF5 shards of the format "sft-packed", version 1.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sft/data/document.hpp"
#include "sft/data/packing.hpp"

namespace sft::data {

/// What every shard of a run says about itself.
struct ShardHeader {
  std::int64_t max_length = 0;
  std::int64_t vocab_size = 0;
  std::int64_t pad_token_id = 0;
  std::int64_t eos_token_id = 0;
  std::string tokenizer;
  std::string tokenizer_fingerprint;
  PackingStrategy packing_strategy = PackingStrategy::none;
  std::string source;
};

/// The rows of one split of the data.
struct SplitRows {
  std::string split;  ///< "train" or "eval": what the names of its files begin with
  std::span<const PackedRow> rows;
  std::int64_t num_shards = 1;
};

struct WrittenShards {
  std::vector<std::string> files;
  std::int64_t num_documents = 0;      ///< as training sees them
  std::int64_t num_tokens = 0;         ///< padding excluded
  std::int64_t num_target_tokens = 0;  ///< with weight > 0 that can be predicted
};

/// Writes the rows of each split to FOLDER/SPLIT-00000.h5 ..., num_shards files whose sizes differ by one row at most.
/// All are written under names ending in .tmp and synced first, and only then renamed, the first file of the first
/// split last: where it is, all are. An error on the way, and a file of such a name, leaves none of them. The weight of
/// the first token of a document is written as 0. advance(num_rows) reports what was written. Returns what was written
/// of each split.
std::vector<WrittenShards> write_shards(const std::string& folder, const ShardHeader& header,
                                        const DocumentStore& documents, std::span<const SplitRows> splits,
                                        const std::function<void(std::int64_t num_rows)>& advance);

}  // namespace sft::data
