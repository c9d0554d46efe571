// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shards of one sft-prepare run: their names, and whether all of them are there.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sft::rows {

/// Which shard of which set a file is.
struct ShardNumber {
  std::string shard_set;  ///< a text that the shards of one run share
  std::int64_t index = 0;
  std::int64_t num_shards = 1;

  bool operator==(const ShardNumber&) const = default;
};

/// A file of a data set; without a number when it does not say one.
struct NumberedShard {
  std::string path;
  std::optional<ShardNumber> number;
};

/// "train-00003.h5" of the split "train".
[[nodiscard]] std::string shard_name(const std::string& split, std::int64_t index);

/// Refuses a list in which a shard of a set is missing, or is there less often than the others, and names it.
void check_sets(const std::vector<NumberedShard>& shards);

}  // namespace sft::rows
