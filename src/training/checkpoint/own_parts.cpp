// SPDX-License-Identifier: Apache-2.0
#include "own_parts.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "sft/core/ensure.hpp"

namespace sft::checkpoint {

namespace {

using parallel::ShardMap;
using parallel::StoredPart;

/// The parts that the owner of this rank's shard has, with its say of who owns them, and parameters of this rank.
std::vector<OwnPart> parts_of_owner(const Entry& entry, bool are_owned) {
  const ShardMap& map = *entry.shard_map;
  const mesh::Place& place = map.place();
  const int owner = owner_of(place.layout(), map.copy_axes(), place.rank());
  std::optional<ShardMap> other;
  if (owner != place.rank()) other.emplace(map.of_rank(WorldRank::from(owner)));

  const std::vector<parallel::StoredTensor> tensors = entry.layout->tensors(map);
  std::unordered_map<std::string, int> numbers;
  for (const parallel::StoredTensor& tensor : tensors) {
    numbers.emplace(tensor.parameter->name, static_cast<int>(numbers.size()));
  }
  std::vector<OwnPart> parts;
  for (const StoredPart& part : entry.layout->parts(other ? *other : map)) {
    if (part.is_owner != are_owned) continue;
    const int tensor = numbers.at(part.parameter->name);
    const parallel::LogicalRectangle& w = part.where;
    parts.push_back({.tensor = tensor,
                     .parameter = tensors[tensor].parameter,
                     .where = {w.row_begin, w.num_rows, w.column_begin, w.num_columns},
                     .memory_begin = w.shard_offset});
  }
  return parts;
}

}  // namespace

bool is_as_parameters(const std::vector<parallel::StoredTensor>& tensors) {
  return std::ranges::all_of(tensors, [](const parallel::StoredTensor& tensor) {
    return tensor.shape == parallel::shape_of(*tensor.parameter);
  });
}

std::vector<OwnPart> own_parts(const Entry& entry) {
  std::vector<OwnPart> parts = parts_of_owner(entry, true);
  if (is_as_parameters(entry.layout->tensors(*entry.shard_map))) {
    std::ranges::stable_sort(parts, {}, [](const OwnPart& part) {
      return std::tuple(part.tensor, part.where.row_begin, part.where.column_begin);
    });
  }
  std::int64_t position = 0;
  for (OwnPart& part : parts) {
    part.position = position;
    position += part.where.num_elements();
  }
  return parts;
}

std::vector<OwnPart> other_parts(const Entry& entry) { return parts_of_owner(entry, false); }

std::int64_t num_elements_of(const std::vector<OwnPart>& parts) {
  return parts.empty() ? 0 : parts.back().position + parts.back().where.num_elements();
}

Region written_region(const Entry& entry, const std::vector<OwnPart>& parts) {
  const mesh::Place& place = entry.shard_map->place();
  const AxisSet same = entry.shard_map->copy_axes();
  return region_of(num_elements_of(parts), place.size(same), place.rank(same));
}

std::vector<MemoryRange> ranges_of(const std::vector<OwnPart>& parts, const Region& region) {
  std::vector<MemoryRange> ranges;
  const std::int64_t region_end = region.begin + region.count;
  for (const OwnPart& part : parts) {
    const std::int64_t begin = std::max(part.position, region.begin);
    const std::int64_t end = std::min(part.position + part.where.num_elements(), region_end);
    if (begin >= end) continue;
    const std::int64_t memory = part.memory_begin + begin - part.position;
    if (!ranges.empty() && ranges.back().begin + ranges.back().count == memory) {
      ranges.back().count += end - begin;
    } else {
      ranges.push_back({memory, end - begin});
    }
  }
  return ranges;
}

}  // namespace sft::checkpoint
