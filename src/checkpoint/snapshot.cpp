// SPDX-License-Identifier: Apache-2.0
#include "sft/checkpoint/snapshot.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "pieces.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/device/arena.hpp"

namespace sft::checkpoint {

namespace {

/// The parts of an entry that the rank at `place` writes.
std::vector<parallel::StoredPart> written_parts(const Entry& entry, const mesh::Place& place) {
  if (!place.owns_shard(entry.shard_map->shard_axes())) return {};
  std::vector<parallel::StoredPart> parts = entry.layout->parts(*entry.shard_map);
  std::erase_if(parts, [](const parallel::StoredPart& part) { return !part.is_owner; });
  return parts;
}

std::int64_t num_elements(const parallel::LogicalRectangle& where) { return where.num_rows * where.num_columns; }

std::size_t bytes_of(std::int64_t num_elements, DType dtype) {
  return checked_cast<std::size_t>(num_elements) * size_of(dtype);
}

}  // namespace

std::size_t snapshot_bytes(const std::vector<Entry>& entries, const mesh::Place& place) {
  // Most entries have one layout, and to list its parts takes as long as all else of a plan.
  std::map<std::pair<const parallel::StoredLayout*, const parallel::ShardMap*>, std::int64_t> sizes;
  std::size_t bytes = 0;
  for (const Entry& entry : entries) {
    const auto [found, is_new] = sizes.try_emplace({entry.layout, entry.shard_map}, 0);
    if (is_new) {
      for (const parallel::StoredPart& part : written_parts(entry, place)) found->second += num_elements(part.where);
    }
    bytes += round_up(bytes_of(found->second, entry.dtype()), device::Arena::alignment_bytes);
  }
  return bytes;
}

std::size_t saved_bytes(const std::vector<Entry>& entries) {
  std::size_t bytes = 0;
  for (const Entry& entry : entries) {
    for (const parallel::StoredTensor& tensor : entry.layout->tensors(*entry.shard_map)) {
      const std::int64_t count =
          std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
      bytes += bytes_of(count, entry.dtype());
    }
  }
  return bytes;
}

Snapshot::Snapshot(Tensor memory, const mesh::Place& place, device::Device& device)
    : memory_(memory),
      place_(place),
      device_(device),
      stream_(device.make_stream()),
      ready_(device.make_event()),
      copied_(device.make_event()) {
  stream_->set_name("snapshot");
}

void Snapshot::begin(const State& state, device::Stream& compute_stream) {
  ready_->record(compute_stream);
  stream_->wait(*ready_);
  copies_.clear();
  char* at = memory_.as<char>();
  for (const Entry& entry : state.entries()) {
    Copy& copy = copies_.emplace_back(Copy{entry.name, entry.dtype(), {}});
    const char* begin = at;
    for (const parallel::StoredPart& part : written_parts(entry, place_)) {
      const std::int64_t count = num_elements(part.where);
      const Tensor values(at, copy.dtype, {count});
      SFT_ENSURE(at + values.size_bytes() <= memory_.as<char>() + memory_.size_bytes(), "a snapshot has its memory");
      if (entry.in_file != nullptr) {
        entry.in_file->read(part.where.shard_offset, values);
      } else {
        device_.copy(values.data, entry.tensor.rows(part.where.shard_offset, count).data, values.size_bytes(),
                     *stream_);
      }
      copy.parts.push_back({entry.name + "/" + part.parameter->name, part.where, at});
      at += values.size_bytes();
    }
    at += round_up(static_cast<std::size_t>(at - begin), device::Arena::alignment_bytes) - (at - begin);
  }
  copied_->record(*stream_);
}

void Snapshot::wait() { copied_->synchronize(); }

void Snapshot::save(io::TensorSink& sink, std::size_t max_entries) const {
  for (std::size_t i = 0; i < std::min(copies_.size(), max_entries); ++i) {
    const Copy& copy = copies_[i];
    const auto element_bytes = static_cast<std::int64_t>(size_of(copy.dtype));
    for (const Part& part : copy.parts) {
      cut_into_pieces(part.where, piece_bytes / element_bytes, [&](const io::Rectangle& piece, std::int64_t begin) {
        sink.write(part.name, piece, copy.dtype, part.values + (begin - part.where.shard_offset) * element_bytes);
      });
    }
  }
}

}  // namespace sft::checkpoint
