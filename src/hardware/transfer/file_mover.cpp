// SPDX-License-Identifier: Apache-2.0
#include "sft/transfer/file_mover.hpp"

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::transfer {

std::size_t room_bytes(std::size_t bytes, io::FileCache cache) {
  return cache == io::FileCache::bypassed ? round_up(bytes, io::direct_alignment_bytes) : bytes;
}

std::uint64_t file_bytes(const std::vector<std::size_t>& place_bytes, io::FileCache cache) {
  std::uint64_t bytes = 0;
  for (const std::size_t place : place_bytes) bytes += room_bytes(place, cache);
  return bytes;
}

FileMover::FileMover(const File& file, const std::vector<std::size_t>& place_bytes, std::size_t num_lanes,
                     device::Device& device, device::Stream& compute)
    : cache_(file.cache),
      lanes_(num_lanes),
      device_(device),
      compute_(compute),
      file_(file.folder, file_bytes(place_bytes, file.cache), file.use, file.cache) {
  std::uint64_t begin = 0;
  for (const std::size_t bytes : place_bytes) {
    places_.push_back({begin, bytes});
    begin += room_bytes(bytes, cache_);
  }
}

FileMover::Range FileMover::range_of(const Move& move) const {
  const Range& place = places_[move.place];
  SFT_ENSURE(move.at + move.memory.size_bytes() <= place.bytes, "what is moved fits into its place");
  SFT_ENSURE(move.memory.is_contiguous(), "numbers are moved as a whole");
  return {place.begin + move.at, room_bytes(move.memory.size_bytes(), cache_)};
}

void FileMover::read(std::size_t lane, const std::vector<Move>& moves) {
  for (const Move& move : moves) static_cast<void>(range_of(move));  // none is started unless all fit
  for (const Move& move : moves) {
    const Range range = range_of(move);
    file_.read(lanes_[lane], range.begin, range.bytes, move.memory.data);
  }
}

void FileMover::write(std::size_t lane, const std::vector<Move>& moves) {
  for (const Move& move : moves) static_cast<void>(range_of(move));
  compute_.synchronize();
  for (const Move& move : moves) {
    const Range range = range_of(move);
    file_.write(lanes_[lane], range.begin, range.bytes, move.memory.data);
  }
}

void FileMover::reads_follow(std::size_t lane) {
  file_.wait(lanes_[lane], [&] { device_.progress(); });
}

}  // namespace sft::transfer
