// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed rows -> HDF5 shards of the format "sft-packed", version 1.

#include <cstdint>
#include <functional>
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
  PackingStrategy packing_strategy = PackingStrategy::none;
  std::string source;
};

struct WrittenShards {
  std::vector<std::string> files;
  std::int64_t num_documents = 0;      ///< as training sees them
  std::int64_t num_tokens = 0;         ///< padding excluded
  std::int64_t num_target_tokens = 0;  ///< with weight > 0 that can be predicted
};

/// Paths FOLDER/train-*.h5 that are there already, sorted.
[[nodiscard]] std::vector<std::string> find_shards(const std::string& folder);

/// Writes `rows` to FOLDER/train-00000.h5 ..., split by row count into num_shards files whose sizes differ by one row
/// at most. All are written under names ending in .tmp and synced first, and only then renamed, train-00000.h5 last:
/// where it is, all are. An error on the way leaves none. The weight of the first token of a document is written as 0.
/// advance(num_rows) reports what was written.
WrittenShards write_shards(const std::string& folder, const ShardHeader& header, const DocumentStore& documents,
                           const std::vector<PackedRow>& rows, std::int64_t num_shards,
                           const std::function<void(std::int64_t num_rows)>& advance);

}  // namespace sft::data
