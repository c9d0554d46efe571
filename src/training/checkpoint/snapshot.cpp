// SPDX-License-Identifier: Apache-2.0
#include "sft/checkpoint/snapshot.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>

#include "file_map.hpp"
#include "own_parts.hpp"
#include "pieces.hpp"
#include "rectangles.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::checkpoint {

std::size_t saved_bytes(const std::vector<Entry>& entries) {
  std::size_t bytes = 0;
  for (const Entry& entry : entries) {
    for (const parallel::StoredTensor& tensor : entry.layout->tensors(*entry.shard_map)) {
      const std::int64_t count =
          std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
      bytes += checked_cast<std::size_t>(count) * size_of(entry.dtype());
    }
  }
  return bytes;
}

Snapshot::Snapshot(Tensor memory, device::Device& device)
    : memory_(memory),
      device_(device),
      stream_(device.make_stream()),
      ready_(device.make_event()),
      copied_(device.make_event()) {
  stream_->set_name("snapshot");
}

void Snapshot::begin(const WritePlan& plan, const State& state, device::Stream& compute_stream) {
  SFT_ENSURE(plan.snapshot_bytes() <= memory_.size_bytes(), "a snapshot has its memory");
  first_.clear();
  for (const Entry& entry : state.first_entries()) {  // the first of the plan, too
    first_.push_back({entry, static_cast<std::int64_t>(plan.entries()[first_.size()].snapshot_begin)});
  }
  ready_->record(compute_stream);
  stream_->wait(*ready_);
  left_ = begin_snapshot(plan, state, memory_.as<std::byte>());
  if (device_.kind() == device::Kind::cpu) {
    stream_->synchronize();
    is_copied_ = {};
    return;
  }
  for (const SnapshotCopy& copy : left_) device_.copy(copy.to, copy.from, copy.num_bytes, *stream_);
  copied_->record(*stream_);
}

void Snapshot::copy() noexcept {
  for (const SnapshotCopy& copy : left_) std::memcpy(copy.to, copy.from, copy.num_bytes);
  is_copied_.set_value();
}

void Snapshot::wait() {
  if (device_.kind() == device::Kind::cpu) return is_copied_.get_future().wait();
  copied_->synchronize();
}

void Snapshot::give_first(io::TensorSink& sink) const {
  for (const Copied& copied : first_) give(copied, sink);
}

void Snapshot::give(const Copied& copied, io::TensorSink& sink) const {
  const Entry& entry = copied.entry;
  const std::vector<OwnPart> parts = own_parts(entry);
  const Region region = written_region(entry, parts);
  const auto element_bytes = static_cast<std::int64_t>(size_of(entry.dtype()));
  for (const OwnPart& part : parts) {
    const std::int64_t begin = std::max(part.position, region.begin);
    const std::int64_t end = std::min(part.position + part.where.num_elements(), region.begin + region.count);
    if (begin >= end) continue;
    std::int64_t at = begin - region.begin;  // in the copy, elements
    for (const io::Rectangle& rectangle : rectangles_of(part.where, begin - part.position, end - begin)) {
      for_each_piece(rectangle, at, piece_bytes / element_bytes, [&](const io::Rectangle& piece, std::int64_t first) {
        sink.write(fmt::format("{}/{}", entry.name, part.parameter->name), piece, entry.dtype(),
                   bytes() + copied.begin + first * element_bytes);
      });
      at += rectangle.num_elements();
    }
  }
}

}  // namespace sft::checkpoint
