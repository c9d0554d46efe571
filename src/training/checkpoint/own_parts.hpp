// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the shard of a rank has of an entry, in the order of its files, and where that lies in the rank's memory.

#include <cstdint>
#include <vector>

#include "file_map.hpp"
#include "sft/checkpoint/save.hpp"
#include "sft/checkpoint/state.hpp"

namespace sft::checkpoint {

/// A rectangle that lies without a gap in the shard's sequence and in memory.
struct OwnPart {
  int tensor = 0;                                  ///< number among the entry's tensors
  const parallel::Parameter* parameter = nullptr;  ///< of the entry's shard map
  io::Rectangle where;
  std::int64_t memory_begin = 0;  ///< first element in the entry's memory
  std::int64_t position = 0;      ///< and in the sequence
};

/// Of every rank the parts that the owner of its shard owns (file_map.hpp), ascending by position.
[[nodiscard]] std::vector<OwnPart> own_parts(const Entry& entry);
/// What a rank holds beside those: copies of what owners of other shards write. Positions are 0.
[[nodiscard]] std::vector<OwnPart> other_parts(const Entry& entry);

/// The length of that sequence.
[[nodiscard]] std::int64_t num_elements_of(const std::vector<OwnPart>& parts);

/// What this rank writes of that sequence.
[[nodiscard]] Region written_region(const Entry& entry, const std::vector<OwnPart>& parts);

/// The memory of elements [begin, begin + count) of the sequence, in its order.
[[nodiscard]] std::vector<MemoryRange> ranges_of(const std::vector<OwnPart>& parts, const Region& region);

/// Of an entry with these tensors, whether they are the parameters that they are named after.
[[nodiscard]] bool is_as_parameters(const std::vector<parallel::StoredTensor>& tensors);

}  // namespace sft::checkpoint
