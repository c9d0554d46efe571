// SPDX-License-Identifier: Apache-2.0
#pragma once
// Places in pinned memory of the node, from which a GPU copies and to which it does on two streams, one for each
// direction of the link, beside the ops. The host waits for nothing.

#include <memory>
#include <string>
#include <vector>

#include "sft/transfer/mover.hpp"

namespace sft::transfer {

class HostMover final : public Mover {
 public:
  /// `places`: where each lies. `name`: what is moved, for timelines. Places, device and compute stream outlive this.
  /// On a CPU it works as well, but saves no memory.
  HostMover(std::vector<Tensor> places, std::size_t num_lanes, device::Device& device, device::Stream& compute,
            const std::string& name, device::Priority priority);
  ~HostMover() override { drain(); }
  HostMover(const HostMover&) = delete;
  HostMover& operator=(const HostMover&) = delete;

  void read(std::size_t lane, const std::vector<Move>& moves) override;
  void write(std::size_t lane, const std::vector<Move>& moves) override;
  void finish(std::size_t lane, device::Stream& stream) override { stream.wait(*done_[lane]); }
  void reads_follow(std::size_t lane) override { in_->wait(*done_[lane]); }
  void reads_follow(device::Event& event) override { in_->wait(event); }
  void reads_follow_ops() override;
  void ops_follow_writes() override;
  void drain() noexcept override;

 private:
  /// Where the move's numbers wait.
  [[nodiscard]] void* address(const Move& move) const;

  const std::vector<Tensor> places_;
  device::Device& device_;
  device::Stream& compute_;
  std::unique_ptr<device::Stream> in_, out_;
  std::unique_ptr<device::Event> computed_, all_written_;
  std::vector<std::unique_ptr<device::Event>> done_;  ///< of each lane
};

}  // namespace sft::transfer
