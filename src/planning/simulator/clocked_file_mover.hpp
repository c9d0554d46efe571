// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long it takes to move activations of a GPU to a file and back, on clocks: what transfer::StagedFileMover does.

#include <cstddef>
#include <memory>
#include <vector>

#include "sft/simulator/clocked_device.hpp"
#include "sft/transfer/mover.hpp"

namespace sft::simulator {

/// Bytes go over the link on a stream for each direction, and to the disk or from it on another one, which both
/// directions share, at Rates::file_bytes_per_s. Device and compute stream outlive it.
class ClockedFileMover final : public transfer::Mover {
 public:
  ClockedFileMover(std::size_t num_lanes, ClockedDevice& device, device::Stream& compute);

  void read(std::size_t lane, const std::vector<transfer::Move>& moves) override;
  void write(std::size_t lane, const std::vector<transfer::Move>& moves) override;
  void finish(std::size_t lane, device::Stream& stream) override { stream.wait(*copied_[lane]); }
  void reads_follow(std::size_t lane) override { in_->wait(*copied_[lane]); }
  void reads_follow(device::Event& event) override { in_->wait(event); }
  void reads_follow_ops() override;
  void ops_follow_writes() override {}  // no op reaches a file
  void drain() noexcept override {}

 private:
  /// The disk is at work for so many bytes.
  void use_disk(const std::vector<transfer::Move>& moves);
  void copy(const std::vector<transfer::Move>& moves, device::Stream& stream);

  ClockedDevice& device_;
  device::Stream& compute_;
  std::unique_ptr<device::Stream> in_, out_, disk_;
  std::unique_ptr<device::Event> computed_, on_disk_, left_;
  std::vector<std::unique_ptr<device::Event>> copied_, written_;  ///< of each lane
};

}  // namespace sft::simulator
