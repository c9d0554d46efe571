// SPDX-License-Identifier: Apache-2.0
#include "shared_reads.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "file_map.hpp"

namespace sft::checkpoint {

Sharers::Sharers(const comm::Group& world, const parallel::ShardMap& shard_map) {
  const mesh::Place& place = shard_map.place();
  const AxisSet same = shard_map.copy_axes();
  size_ = place.size(same);
  rank_ = place.rank(same);
  if (size_ == 1) return;
  group_ = world.split(owner_of(place.layout(), same, place.rank()), rank_, "ranks of a shard");
}

bool Sharers::read(int reader, std::size_t count, void* bytes, const std::function<void()>& read_them) {
  if (rank_ == reader) apply(read_them);
  if (size_ > 1) {
    message_.resize(1 + (count + sizeof(std::int64_t) - 1) / sizeof(std::int64_t));
    message_.front() = failed_ ? 1 : 0;
    if (rank_ == reader) std::memcpy(message_.data() + 1, bytes, count);
    group_.broadcast(std::span<std::int64_t>(message_), reader);
    if (rank_ != reader) std::memcpy(bytes, message_.data() + 1, count);
    failed_ = failed_ || message_.front() != 0;
  }
  return !failed_;
}

void Sharers::apply(const std::function<void()>& work) {
  if (failed_) return;
  try {
    work();
  } catch (...) {
    error_ = std::current_exception();
    failed_ = true;
  }
}

void Sharers::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

AllSharers::AllSharers(const comm::Group& world, const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (number_of(entry) < axes_.size()) continue;
    axes_.push_back(entry.shard_map->copy_axes());
    sharers_.emplace_back(world, *entry.shard_map);
  }
}

std::size_t AllSharers::number_of(const Entry& entry) const {
  return std::ranges::find(axes_, entry.shard_map->copy_axes()) - axes_.begin();
}

void AllSharers::rethrow() const {
  for (const Sharers& sharers : sharers_) sharers.rethrow();
}

}  // namespace sft::checkpoint
