// SPDX-License-Identifier: Apache-2.0
#include "packed_shard.hpp"

#include <algorithm>
#include <set>

#include "sft/core/cast.hpp"

namespace sft::optim {

using parallel::Parameter;
using parallel::ShardMap;

PackedShard::PackedShard(const ShardMap& shard_map, const IsParameter& is_kept) {
  for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
    for (const parallel::ShardRange& range :
         shard_map.ranges_of_unit(unit, [&](const Parameter& p) { return is_kept(unit, p); })) {
      ranges_.push_back({range.begin, range.count, num_elements_});
      num_elements_ = round_up(num_elements_ + range.count, parallel::alignment_elements);
    }
  }
}

std::int64_t PackedShard::place_of(std::int64_t at) const {
  const auto found = std::ranges::lower_bound(ranges_, at, {}, [](const Range& r) { return r.begin + r.count - 1; });
  if (found == ranges_.end()) return num_elements_;
  return found->place + std::max<std::int64_t>(at - found->begin, 0);
}

StateArray packed_array(const PackedShard& shard, const std::vector<Window>& windows, DType dtype,
                        StateLocation place) {
  StateArray array{.dtype = dtype, .place = place, .windows = {}};
  for (const Window& window : windows) {
    const std::int64_t begin = shard.place_of(window.begin), end = shard.place_of(window.begin + window.count);
    array.windows.push_back({begin, end - begin});
  }
  return array;
}

std::vector<parallel::StoredTensor> PackedLayout::tensors(const ShardMap& shard_map) const {
  std::vector<parallel::StoredTensor> all;
  for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
    for (const Parameter& parameter : shard_map.unit(unit).parameters) {
      if (is_kept_(unit, parameter)) all.push_back({&parameter, shape_of(parameter)});
    }
  }
  return all;
}

std::vector<parallel::StoredPart> PackedLayout::parts(const ShardMap& shard_map) const {
  std::set<const Parameter*> kept;
  for (const parallel::StoredTensor& tensor : tensors(shard_map)) kept.insert(tensor.parameter);
  const PackedShard shard(shard_map, is_kept_);
  std::vector<parallel::StoredPart> parts;
  for (const parallel::Piece& piece : shard_map.pieces()) {
    if (!kept.contains(piece.parameter)) continue;
    for (parallel::LogicalRectangle where : ShardMap::rectangles(piece)) {
      where.shard_offset = shard.place_of(where.shard_offset);
      parts.push_back({piece.parameter, where, piece.parameter->is_owner});
    }
  }
  return parts;
}

std::int64_t PackedLayout::num_elements(const ShardMap& shard_map) const {
  return PackedShard(shard_map, is_kept_).num_elements();
}

}  // namespace sft::optim
