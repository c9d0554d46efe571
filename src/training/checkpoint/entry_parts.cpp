// SPDX-License-Identifier: Apache-2.0
#include "entry_parts.hpp"

#include <algorithm>
#include <stdexcept>

namespace sft::checkpoint {

namespace {

using parallel::Parameter;
using parallel::ShardMap;

constexpr std::size_t max_shards = 512;  ///< that are remembered

/// The rank at `coordinates`, but number `number` among the ranks along `axes`.
int rank_along(const mesh::Layout& layout, mesh::Coordinates coordinates, const AxisSet& axes, int number) {
  for (std::size_t i = num_axes; i-- > 0;) {  // the fastest axis first
    const Axis axis = all_axes[i];
    if (!axes.contains(axis)) continue;
    coordinates[axis] = number % layout[axis];
    number /= layout[axis];
  }
  return layout.rank(coordinates);
}

bool meets(const io::Rectangle& a, const io::Rectangle& b) {
  return a.row_begin < b.row_begin + b.num_rows && b.row_begin < a.row_begin + a.num_rows &&
         a.column_begin < b.column_begin + b.num_columns && b.column_begin < a.column_begin + a.num_columns;
}

}  // namespace

std::vector<std::size_t> EntryParts::Shard::of_tensor(int tensor) const {
  std::vector<std::size_t> numbers;
  const auto [begin, end] = by_tensor_.equal_range(tensor);
  for (auto found = begin; found != end; ++found) numbers.push_back(found->second);
  std::ranges::sort(numbers);
  return numbers;
}

EntryParts::EntryParts(const FileMap& map, const MappedEntry& entry)
    : map_(map), entry_(entry), cut_(map.cuts.at(entry.cut)), num_shards_(map.layout.size(cut_.shard_axes)) {
  if (!entry.is_as_parameters) return;
  std::unordered_map<std::string, std::size_t> tensors;
  for (std::size_t i = 0; i < entry.tensors.size(); ++i) {
    tensors[entry.tensors[i].name.substr(entry.name.size() + 1)] = i;
  }
  const AxisSet slice_axes = cut_.slice_axes();
  for (int number = 0; number < map.layout.size(slice_axes); ++number) {
    const int rank = rank_along(map.layout, {}, slice_axes, number);
    Slice slice{.first = ShardMap(cut_.units, mesh::Place(map.layout, WorldRank::from(rank)), cut_.shard_axes),
                .parameters = std::vector<const Parameter*>(tensors.size()),
                .units = std::vector<const parallel::Unit*>(tensors.size())};
    std::size_t num_found = 0;
    for (const parallel::Unit& unit : slice.first.units()) {
      for (const Parameter& p : unit.parameters) {
        const auto found = tensors.find(p.name);
        if (found == tensors.end()) continue;
        slice.parameters[found->second] = &p;
        slice.units[found->second] = &unit;
        ++num_found;
      }
    }
    if (num_found != entry.tensors.size()) throw std::invalid_argument(entry.name + " has a tensor that no unit has");
    slices_.push_back(std::move(slice));
  }
}

int EntryParts::owner_in(const Slice& slice, int shard) const {
  const mesh::Place& place = slice.first.place();
  return rank_along(map_.layout, map_.layout.coordinates(place.rank()), cut_.shard_axes, shard);
}

int EntryParts::replica(int owner, int replica) const {
  return rank_along(map_.layout, map_.layout.coordinates(WorldRank::from(owner)), cut_.copy_axes(), replica);
}

void EntryParts::add_pieces(const Slice& slice, int shard, Shard& result) const {
  for (std::size_t tensor = 0; tensor < slice.parameters.size(); ++tensor) {
    const Parameter& p = *slice.parameters[tensor];
    if (!p.is_owner) continue;
    const std::int64_t shard_elements = slice.units[tensor]->shard_elements;
    const std::int64_t begin = std::max(p.unit_offset, shard * shard_elements);
    const std::int64_t end = std::min(p.unit_offset + p.local_elements(), (shard + 1) * shard_elements);
    if (begin >= end) continue;
    for (const parallel::LogicalRectangle& where : ShardMap::rectangles(
             {.parameter = &p, .begin = begin - p.unit_offset, .count = end - begin, .shard_offset = 0})) {
      const io::Rectangle part{where.row_begin, where.num_rows, where.column_begin, where.num_columns};
      result.parts.push_back({static_cast<int>(tensor), part, result.num_elements});
      result.num_elements += part.num_elements();
    }
  }
}

const EntryParts::Shard& EntryParts::shard(int owner) {
  if (const auto found = shards_.find(owner); found != shards_.end()) return found->second;
  if (shards_.size() >= max_shards) shards_.clear();
  Shard made;
  if (entry_.is_as_parameters) {
    const mesh::Place place(map_.layout, WorldRank::from(owner));
    const std::size_t slice = place.rank(cut_.slice_axes());
    add_pieces(slices_[slice], place.rank(cut_.shard_axes), made);
  } else if (const auto found = entry_.parts.find(owner); found != entry_.parts.end()) {
    made.parts = found->second;
    for (const FilePart& part : made.parts) made.num_elements += part.where.num_elements();
  }
  for (std::size_t i = 0; i < made.parts.size(); ++i) made.by_tensor_.emplace(made.parts[i].tensor, i);
  return shards_.emplace(owner, std::move(made)).first->second;
}

std::vector<int> EntryParts::owners_of(int tensor, const io::Rectangle& where) const {
  std::vector<int> owners;
  for (const auto& [owner, parts] : entry_.parts) {
    if (std::ranges::any_of(parts,
                            [&](const FilePart& part) { return part.tensor == tensor && meets(part.where, where); }))
      owners.push_back(owner);
  }
  for (const Slice& slice : slices_) {
    const Parameter& p = *slice.parameters[tensor];
    const io::Rectangle held{p.row_begin, p.local_rows, p.column_begin, p.local_columns};
    if (!p.is_owner || !meets(held, where)) continue;
    const std::int64_t first_row = std::max(where.row_begin, held.row_begin) - held.row_begin;
    const std::int64_t last_row =
        std::min(where.row_begin + where.num_rows, held.row_begin + held.num_rows) - held.row_begin - 1;
    const std::int64_t first_column = std::max(where.column_begin, held.column_begin) - held.column_begin;
    const std::int64_t last_column =
        std::min(where.column_begin + where.num_columns, held.column_begin + held.num_columns) - held.column_begin - 1;
    const std::int64_t shard_elements = slice.units[tensor]->shard_elements;
    const std::int64_t first = (p.unit_offset + first_row * p.local_columns + first_column) / shard_elements;
    const std::int64_t last = (p.unit_offset + last_row * p.local_columns + last_column) / shard_elements;
    for (std::int64_t shard = first; shard <= last; ++shard) {
      owners.push_back(owner_in(slice, static_cast<int>(shard)));
    }
  }
  return owners;
}

std::vector<int> EntryParts::owners() const {
  std::vector<int> all;
  for (const auto& [owner, parts] : entry_.parts) all.push_back(owner);
  for (const Slice& slice : slices_) {
    for (int shard = 0; shard < num_shards_; ++shard) all.push_back(owner_in(slice, shard));
  }
  return all;
}

}  // namespace sft::checkpoint
