// SPDX-License-Identifier: Apache-2.0
#include "simulator/clocked_file_mover.hpp"

namespace sft::simulator {

ClockedFileMover::ClockedFileMover(std::size_t num_lanes, ClockedDevice& device, device::Stream& compute)
    : device_(device),
      compute_(compute),
      in_(device.make_stream(device::Priority::communication)),
      out_(device.make_stream(device::Priority::communication)),
      disk_(device.make_stream(device::Priority::communication)),
      computed_(device.make_event()),
      on_disk_(device.make_event()),
      left_(device.make_event()) {
  in_->set_name("activations in");
  out_->set_name("activations out");
  disk_->set_name("disk");
  for (std::size_t lane = 0; lane < num_lanes; ++lane) {
    copied_.push_back(device.make_event());
    written_.push_back(device.make_event());
  }
}

void ClockedFileMover::use_disk(const std::vector<transfer::Move>& moves) {
  double num_bytes = 0;
  for (const transfer::Move& move : moves) num_bytes += static_cast<double>(move.memory.size_bytes());
  const double bytes_per_s = device_.rates().file_bytes_per_s;
  if (bytes_per_s > 0) clocked(*disk_).advance(num_bytes / bytes_per_s);
}

void ClockedFileMover::copy(const std::vector<transfer::Move>& moves, device::Stream& stream) {
  for (const transfer::Move& move : moves) device_.copy(nullptr, move.memory.data, move.memory.size_bytes(), stream);
}

void ClockedFileMover::write(std::size_t lane, const std::vector<transfer::Move>& moves) {
  computed_->record(compute_);
  out_->wait(*computed_);
  copy(moves, *out_);
  copied_[lane]->record(*out_);
  disk_->wait(*copied_[lane]);
  use_disk(moves);
  written_[lane]->record(*disk_);
}

void ClockedFileMover::read(std::size_t lane, const std::vector<transfer::Move>& moves) {
  disk_->wait(*written_[lane]);
  use_disk(moves);
  on_disk_->record(*disk_);
  in_->wait(*on_disk_);
  copy(moves, *in_);
  copied_[lane]->record(*in_);
}

void ClockedFileMover::reads_follow_ops() {
  computed_->record(compute_);
  in_->wait(*computed_);
}

}  // namespace sft::simulator
