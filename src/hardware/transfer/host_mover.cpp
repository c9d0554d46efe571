// SPDX-License-Identifier: Apache-2.0
#include "sft/transfer/host_mover.hpp"

#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::transfer {

HostMover::HostMover(std::vector<Tensor> places, std::size_t num_lanes, device::Device& device, device::Stream& compute,
                     const std::string& name, device::Priority priority)
    : places_(std::move(places)),
      device_(device),
      compute_(compute),
      in_(device.make_stream(priority)),
      out_(device.make_stream(priority)),
      computed_(device.make_event()),
      all_written_(device.make_event()) {
  in_->set_name(name + " in");
  out_->set_name(name + " out");
  for (std::size_t lane = 0; lane < num_lanes; ++lane) done_.push_back(device.make_event());
}

void* HostMover::address(const Move& move) const {
  const Tensor& place = places_[move.place];
  SFT_ENSURE(move.at + move.memory.size_bytes() <= place.size_bytes(), "what is moved fits into its place");
  SFT_ENSURE(move.memory.is_contiguous(), "numbers are moved as a whole");
  return place.as<std::byte>() + move.at;
}

void HostMover::read(std::size_t lane, const std::vector<Move>& moves) {
  for (const Move& move : moves) device_.copy(move.memory.data, address(move), move.memory.size_bytes(), *in_);
  done_[lane]->record(*in_);
}

void HostMover::write(std::size_t lane, const std::vector<Move>& moves) {
  computed_->record(compute_);
  out_->wait(*computed_);
  for (const Move& move : moves) device_.copy(address(move), move.memory.data, move.memory.size_bytes(), *out_);
  done_[lane]->record(*out_);
}

void HostMover::reads_follow_ops() {
  computed_->record(compute_);
  in_->wait(*computed_);
}

void HostMover::ops_follow_writes() {
  all_written_->record(*out_);
  compute_.wait(*all_written_);
}

void HostMover::drain() noexcept {
  in_->drain();
  out_->drain();
}

}  // namespace sft::transfer
