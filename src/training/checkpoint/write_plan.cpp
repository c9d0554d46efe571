// SPDX-License-Identifier: Apache-2.0
#include "own_parts.hpp"
#include "sft/checkpoint/save.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::size_t alignment_bytes = 64;

}  // namespace

WritePlan::WritePlan(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    const std::vector<OwnPart> parts = own_parts(entry);
    const Region region = written_region(entry, parts);
    EntryWrites writes{.dtype = entry.dtype(),
                       .ranges = ranges_of(parts, region),
                       .num_elements = region.count,
                       .snapshot_begin = snapshot_bytes_};
    snapshot_bytes_ = round_up(snapshot_bytes_ + writes.num_bytes(), alignment_bytes);
    entries_.push_back(std::move(writes));
    shared_.push_back({entry.dtype(), num_elements_of(parts), entry.shard_map->copy_axes()});
  }
}

std::size_t WritePlan::snapshot_bytes_of(const mesh::Place& place) const {
  std::size_t bytes = 0;
  for (const Shared& entry : shared_) {
    const Region region = region_of(entry.num_elements, place.size(entry.copy_axes), place.rank(entry.copy_axes));
    bytes = round_up(bytes + static_cast<std::size_t>(region.count) * size_of(entry.dtype), alignment_bytes);
  }
  return bytes;
}

std::vector<SnapshotCopy> begin_snapshot(const WritePlan& plan, const State& state, std::byte* snapshot) {
  std::vector<SnapshotCopy> copies;
  SFT_ENSURE(plan.entries().size() == state.entries().size(), "a plan is of the entries that are copied");
  for (std::size_t i = 0; i < plan.entries().size(); ++i) {
    const EntryWrites& writes = plan.entries()[i];
    const Entry& entry = state.entries()[i];
    std::byte* to = snapshot + writes.snapshot_begin;
    for (const MemoryRange& range : writes.ranges) {
      const Tensor values(to, writes.dtype, {range.count});
      if (entry.in_file != nullptr) {
        entry.in_file->read(range.begin, values);
      } else {
        copies.push_back({to, entry.tensor.rows(range.begin, range.count).data, values.size_bytes()});
      }
      to += values.size_bytes();
    }
  }
  return copies;
}

void take_snapshot(const WritePlan& plan, const State& state, device::Device& device, device::Stream& stream,
                   std::byte* snapshot) {
  for (const SnapshotCopy& copy : begin_snapshot(plan, state, snapshot)) {
    device.copy(copy.to, copy.from, copy.num_bytes, stream);
  }
}

}  // namespace sft::checkpoint
