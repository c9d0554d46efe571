// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed rows -> HDF5 shards of the format "sft-packed", version 1.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "prepare/output_folder.hpp"
#include "sft/core/markup.hpp"
#include "sft/prepare/document.hpp"
#include "sft/prepare/packing.hpp"
#include "sft/prepare/prepare.hpp"

namespace sft::prepare {

/// What every shard of a run says about itself.
struct ShardHeader {
  std::int64_t max_length = 0;
  std::int64_t vocab_size = 0;
  std::int64_t pad_token_id = 0;
  std::int64_t eos_token_id = 0;
  std::string tokenizer;
  std::string tokenizer_fingerprint;
  Markup markup;
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
  std::int64_t num_kept = 0;           ///< files that an earlier call had finished
};

/// Writes the rows of each split to FOLDER/SPLIT-00000.h5 ..., num_shards files whose sizes differ by one row at most;
/// each process of the team its share of them. All are written under names ending in .tmp and synced first, and only
/// then named, the first file of the first split last: where it is, all are. What an earlier call finished of the very
/// same files is checked and kept; where the folder is not locked, there is no such thing. An error on the way leaves
/// what is finished, for the next call. The weight of the first token of a document is written as 0. Reports the rows
/// of this process as "writing" to `progress`. `output`: on rank 0, where it makes room. Returns what was written of
/// each split, by all.
std::vector<WrittenShards> write_shards(const std::string& folder, const OutputFolder* output,
                                        const ShardHeader& header, const DocumentStore& documents,
                                        std::span<const SplitRows> splits, const Team& team,
                                        const PrepareProgress& progress);

}  // namespace sft::prepare
