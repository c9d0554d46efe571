// SPDX-License-Identifier: Apache-2.0
#include "sft/transfer/staged_file_mover.hpp"

#include <algorithm>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::transfer {

namespace {

/// Bytes of a place that the moves reach, from its beginning.
std::size_t reach_of(const std::vector<Move>& moves) {
  std::size_t bytes = 0;
  for (const Move& move : moves) bytes = std::max(bytes, move.at + move.memory.size_bytes());
  return bytes;
}

}  // namespace

std::uint64_t StagedFileMover::file_bytes(std::size_t place_bytes, std::size_t num_places) {
  return std::uint64_t{num_places} * room_bytes(place_bytes);
}

std::size_t StagedFileMover::staging_bytes(std::size_t place_bytes) {
  // An arena aligns to less than a block of the disk.
  return num_buffers * room_bytes(place_bytes) + io::direct_alignment_bytes;
}

StagedFileMover::StagedFileMover(const FileMover::File& file, std::size_t place_bytes, std::size_t num_places,
                                 const Tensor& staging, device::Device& device, device::Stream& compute,
                                 const std::string& name)
    : place_bytes_(place_bytes),
      device_(device),
      compute_(compute),
      in_(device.make_stream(device::Priority::communication)),
      out_(device.make_stream(device::Priority::communication)),
      gate_(device.make_stream(device::Priority::communication)),
      computed_(device.make_event()),
      file_(file.folder, file_bytes(place_bytes, num_places), file.use, file.cache) {
  SFT_ENSURE(staging.size_bytes() >= staging_bytes(place_bytes), "the buffers have their memory");
  in_->set_name(name + " in");
  out_->set_name(name + " out");
  gate_->set_name(name + " may come");
  const auto address = reinterpret_cast<std::uintptr_t>(staging.data);
  auto* at = reinterpret_cast<char*>(round_up(address, io::direct_alignment_bytes));
  for (Buffer& buffer : buffers_) {
    buffer.memory = at;
    buffer.copied = device.make_event();
    buffer.is_free = device.make_event();
    at += room_bytes(place_bytes);
  }
}

StagedFileMover::Buffer* StagedFileMover::find(std::size_t lane) {
  const auto found = std::ranges::find_if(
      buffers_, [&](const Buffer& buffer) { return buffer.status != Buffer::Status::idle && buffer.lane == lane; });
  return found == buffers_.end() ? nullptr : &*found;
}

void StagedFileMover::wait_for_file(Buffer& buffer) {
  file_.wait(buffer.batch, [&] { device_.progress(); });
}

void StagedFileMover::write_behind() {
  for (Buffer& buffer : buffers_) {
    if (buffer.status != Buffer::Status::leaving) continue;
    buffer.copied->synchronize();
    file_.write(buffer.batch, buffer.lane * room_bytes(place_bytes_), room_bytes(buffer.bytes), buffer.memory);
    buffer.status = Buffer::Status::writing;
  }
}

StagedFileMover::Buffer& StagedFileMover::take_buffer(std::size_t lane, const std::vector<Move>& moves) {
  const std::size_t bytes = reach_of(moves);
  SFT_ENSURE(bytes <= place_bytes_, "what is moved fits into its place");
  SFT_ENSURE(
      std::ranges::all_of(moves, [&](const Move& move) { return move.place == lane && move.memory.is_contiguous(); }),
      "numbers are moved as a whole, to the place of their lane");
  write_behind();
  // What the lane has written is in the file before it is read or written again.
  Buffer* buffer = find(lane);
  if (buffer == nullptr) buffer = &*std::ranges::min_element(buffers_, {}, &Buffer::used_at);
  SFT_ENSURE(buffer->status != Buffer::Status::reading, "what was read is used before more is moved");
  if (buffer->status == Buffer::Status::writing) wait_for_file(*buffer);
  if (buffer->status == Buffer::Status::arriving) buffer->copied->synchronize();
  buffer->lane = lane;
  buffer->bytes = bytes;
  buffer->moves = moves;
  buffer->used_at = ++clock_;
  return *buffer;
}

void StagedFileMover::read(std::size_t lane, const std::vector<Move>& moves) {
  const Buffer* written = find(lane);
  const bool is_here = written != nullptr && written->status != Buffer::Status::arriving &&
                       written->bytes >= reach_of(moves);  // as it left the GPU
  Buffer& buffer = take_buffer(lane, moves);
  buffer.is_free->record(*gate_);
  if (!is_here) {
    file_.read(buffer.batch, lane * room_bytes(place_bytes_), room_bytes(buffer.bytes), buffer.memory);
  }
  buffer.status = Buffer::Status::reading;
}

void StagedFileMover::write(std::size_t lane, const std::vector<Move>& moves) {
  Buffer& buffer = take_buffer(lane, moves);
  computed_->record(compute_);
  out_->wait(*computed_);
  for (const Move& move : moves) {
    device_.copy(buffer.memory + move.at, move.memory.data, move.memory.size_bytes(), *out_);
  }
  buffer.copied->record(*out_);
  buffer.status = Buffer::Status::leaving;
}

void StagedFileMover::finish(std::size_t lane, device::Stream& stream) {
  Buffer* buffer = find(lane);
  if (buffer == nullptr) return;  // its copy was waited for when another lane took the buffer
  if (buffer->status == Buffer::Status::reading) {
    wait_for_file(*buffer);
    in_->wait(*buffer->is_free);
    for (const Move& move : buffer->moves) {
      device_.copy(move.memory.data, buffer->memory + move.at, move.memory.size_bytes(), *in_);
    }
    buffer->copied->record(*in_);
    buffer->status = Buffer::Status::arriving;
  }
  stream.wait(*buffer->copied);
}

void StagedFileMover::reads_follow_ops() {
  computed_->record(compute_);
  gate_->wait(*computed_);
}

void StagedFileMover::drain() noexcept {
  in_->drain();
  out_->drain();
  file_.drain();
}

}  // namespace sft::transfer
