// SPDX-License-Identifier: Apache-2.0
#pragma once
// Entries filled from storage, piece by piece, for all ranks of a shard together.

#include <string>
#include <vector>

#include "entry_memory.hpp"
#include "map_source.hpp"
#include "own_parts.hpp"
#include "shared_reads.hpp"

namespace sft::checkpoint {

/// Errors are kept by the sharers until all pieces are through.
class Loader {
 public:
  /// All outlive it.
  Loader(AllSharers& sharers, device::Device& device, device::Stream& stream, LoadedWeights& seen);

  /// Zeros between the parts of an entry. Local.
  void clear_padding(const Entry& entry);
  /// The `parts` of an entry, from a source of whole tensors. Collective over the entry's sharers.
  void load_parts(const io::TensorSource& source, const Entry& entry, const std::vector<OwnPart>& parts);
  /// What the shard of this rank has, its own_parts(), where entry `number` of the checkpoint was cut into the same
  /// shards: each file that has a region of it is read once, from its begin to its end, and compared with its hash; a
  /// thread reads what comes next meanwhile.
  /// Collective over the entry's sharers.
  void load_regions(MapSource& source, const Entry& entry, std::size_t number, const std::vector<OwnPart>& parts);

 private:
  void put_sequence(const std::string& path, const Entry& entry, const std::vector<OwnPart>& parts, std::int64_t begin,
                    std::int64_t count, DType dtype, const void* values);

  AllSharers& sharers_;
  EntryMemory memory_;
  device::Device::Block buffer_;  ///< of two reads
};

/// Whether the ranks of this mesh hold of an entry just the shards that those of the checkpoint's mesh wrote. Pure; the
/// same on all ranks.
[[nodiscard]] bool has_same_shards(const FileMap& map, const MappedEntry& stored, const Entry& entry);

}  // namespace sft::checkpoint
