// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which shard has which part of an entry's tensors, by the rules of a FileMap: found for what is asked for, never
// listed for all ranks.

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "file_map.hpp"
#include "sft/mesh/place.hpp"

namespace sft::checkpoint {

class EntryParts {
 public:
  /// `map` outlives it. Throws std::invalid_argument where the entry names a parameter that its cut lacks.
  EntryParts(const FileMap& map, const MappedEntry& entry);

  /// What one shard has of the entry.
  struct Shard {
    std::vector<FilePart> parts;  ///< ascending by position
    std::int64_t num_elements = 0;
    /// The numbers of the parts of `tensor`.
    [[nodiscard]] std::vector<std::size_t> of_tensor(int tensor) const;

   private:
    friend class EntryParts;
    std::unordered_multimap<int, std::size_t> by_tensor_;
  };
  /// The shard of a rank that owns it. Valid until the next call.
  [[nodiscard]] const Shard& shard(int owner);
  /// The owners of all shards that have a part of `tensor` in `where`, and perhaps of some that have none.
  [[nodiscard]] std::vector<int> owners_of(int tensor, const io::Rectangle& where) const;
  /// The owners of all shards.
  [[nodiscard]] std::vector<int> owners() const;

  /// The owner of shard number `shard` of slice number `slice`, of an entry that is cut as its parameters.
  [[nodiscard]] int owner(int slice, int shard) const { return owner_in(slices_.at(slice), shard); }

  [[nodiscard]] int num_replicas() const { return map_.layout.size(cut_.copy_axes()); }
  /// The rank that holds what `owner` owns as replica number `replica`.
  [[nodiscard]] int replica(int owner, int replica) const;

 private:
  /// The ranks whose slices of parameters are alike (Cut::slice_axes), and what the first of them holds.
  struct Slice {
    parallel::ShardMap first;
    std::vector<const parallel::Parameter*> parameters;  ///< by tensor; null: it has none of it
    std::vector<const parallel::Unit*> units;            ///< by tensor
  };
  [[nodiscard]] int owner_in(const Slice& slice, int shard) const;
  void add_pieces(const Slice& slice, int shard, Shard& result) const;

  const FileMap& map_;
  const MappedEntry& entry_;
  const Cut& cut_;
  int num_shards_;
  std::vector<Slice> slices_;
  std::map<int, Shard> shards_;  ///< a few, by owner
};

}  // namespace sft::checkpoint
