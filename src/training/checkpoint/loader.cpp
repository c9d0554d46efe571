// SPDX-License-Identifier: Apache-2.0
#include "loader.hpp"

#include <algorithm>
#include <future>
#include <optional>

#include "pieces.hpp"
#include "rectangles.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::int64_t read_bytes = std::int64_t{4} << 20;  ///< of a region at a time

/// Elements [begin, begin + count) of the region that rank `writer` wrote, which begins at `region_begin` of a
/// sequence.
struct RegionRead {
  int writer, reader;  ///< reader: of the sharers
  std::int64_t region_begin, begin, count;
  bool is_last;  ///< of the region
};

}  // namespace

Loader::Loader(AllSharers& sharers, device::Device& device, device::Stream& stream, LoadedWeights& seen)
    : sharers_(sharers),
      memory_(device, stream, seen),
      buffer_(device.allocate(2 * read_bytes, device::Space::pinned)) {}

void Loader::clear_padding(const Entry& entry) {
  sharers_.of(entry).apply([&] { memory_.clear_padding(entry); });
}

void Loader::load_parts(const io::TensorSource& source, const Entry& entry, const std::vector<OwnPart>& parts) {
  Sharers& sharers = sharers_.of(entry);
  const DType dtype = entry.dtype() == DType::uint8 ? DType::uint8 : DType::float32;
  const std::int64_t capacity = piece_bytes / static_cast<std::int64_t>(size_of(dtype));
  for (const OwnPart& part : parts) {
    const std::string name = entry.name + "/" + part.parameter->name;
    for_each_piece(part.where, part.memory_begin, capacity, [&](const io::Rectangle& piece, std::int64_t begin) {
      const std::size_t count = piece.num_elements() * size_of(dtype);
      sharers.read(sharers.next_reader(), count, buffer_.get(),
                   [&] { source.read(name, piece, dtype, buffer_.get()); });
      sharers.apply([&] { memory_.put(source.path(), entry, *part.parameter, piece, begin, dtype, buffer_.get()); });
    });
  }
}

void Loader::put_sequence(const std::string& path, const Entry& entry, const std::vector<OwnPart>& parts,
                          std::int64_t begin, std::int64_t count, DType dtype, const void* values) {
  auto part = std::ranges::upper_bound(parts, begin, {}, &OwnPart::position) - 1;
  for (std::int64_t at = begin; at < begin + count; ++part) {
    const std::int64_t end = std::min(begin + count, part->position + part->where.num_elements());
    for (const io::Rectangle& piece : rectangles_of(part->where, at - part->position, end - at)) {
      const char* of_piece = static_cast<const char*>(values) + (at - begin) * size_of(dtype);
      memory_.put(path, entry, *part->parameter, piece, part->memory_begin + at - part->position, dtype, of_piece);
      at += piece.num_elements();
    }
  }
}

void Loader::load_regions(MapSource& source, const Entry& entry, std::size_t number,
                          const std::vector<OwnPart>& parts) {
  Sharers& sharers = sharers_.of(entry);
  EntryParts& stored = source.parts(number);
  const DType dtype = source.map().entries[number].dtype;
  const std::int64_t most = read_bytes / static_cast<std::int64_t>(size_of(dtype));
  // The old mesh may have had other replicas: the shards are the same.
  const mesh::Place& place = entry.shard_map->place();
  const int slice = place.rank(entry.shard_map->slice_axes()), shard = place.rank(entry.shard_map->shard_axes());
  const int owner = stored.owner(slice, shard);
  const std::int64_t size = stored.shard(owner).num_elements;
  std::vector<RegionRead> reads;
  for (int replica = 0; replica < stored.num_replicas(); ++replica) {
    const Region region = region_of(size, stored.num_replicas(), replica);
    const int writer = stored.replica(owner, replica), reader = replica % sharers.size();
    for (std::int64_t begin = 0; begin < region.count; begin += most) {
      reads.push_back(
          {writer, reader, region.begin, begin, std::min(most, region.count - begin), begin + most >= region.count});
    }
  }
  const auto buffer_of = [&](std::size_t i) { return static_cast<char*>(buffer_.get()) + i % 2 * read_bytes; };
  std::future<void> bytes;
  const auto start = [&](std::size_t i) {
    if (bytes.valid()) bytes.wait();  // it failed elsewhere
    if (i >= reads.size() || sharers.rank() != reads[i].reader) return;
    bytes = std::async(std::launch::async, [&, i, to = buffer_of(i)] {
      source.regions().read(reads[i].writer, number, reads[i].begin, reads[i].count, to);
    });
  };
  start(0);
  std::optional<RegionCheck> check;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const RegionRead& read = reads[i];
    const std::size_t num_bytes = read.count * size_of(dtype);
    char* const values = buffer_of(i);
    if (read.begin == 0) check.emplace(source.regions(), read.writer, number);
    if (sharers.rank() == read.reader) sharers.apply([&] { bytes.get(); });
    start(i + 1);
    sharers.read(read.reader, num_bytes, values, [&] {
      check->add(values, num_bytes);
      if (read.is_last) check->finish();
    });
    sharers.apply(
        [&] { put_sequence(source.path(), entry, parts, read.region_begin + read.begin, read.count, dtype, values); });
  }
}

bool has_same_shards(const FileMap& map, const MappedEntry& stored, const Entry& entry) {
  const mesh::Layout& layout = entry.shard_map->place().layout();
  const Cut cut{entry.shard_map->shard_axes(), entry.shard_map->units()};
  const Cut& stored_cut = map.cuts[stored.cut];
  const auto tensors = entry.layout->tensors(*entry.shard_map);
  const AxisSet slice_axes = cut.slice_axes();
  bool is_same = stored.is_as_parameters && is_as_parameters(tensors) && cut.has_same_units(stored_cut) &&
                 layout.size(cut.shard_axes) == map.layout.size(stored_cut.shard_axes) &&
                 std::ranges::all_of(all_axes, [&](Axis axis) {
                   return !slice_axes.contains(axis) || layout[axis] == map.layout[axis];
                 });
  is_same = is_same && tensors.size() == stored.tensors.size();
  for (std::size_t i = 0; is_same && i < tensors.size(); ++i) {
    is_same = stored.tensors[i].name == entry.name + "/" + tensors[i].parameter->name;
  }
  return is_same;
}

}  // namespace sft::checkpoint
