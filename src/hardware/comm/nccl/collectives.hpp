// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives on GPU memory through NCCL, each queued on the stream it is given.

#include <vector>

#include "communicators.hpp"
#include "sft/comm/collectives.hpp"

namespace sft::comm {

class NcclCollectives final : public Collectives {
 public:
  /// Collective over each of `groups`, which see a first call of every kind here: its connections and its kernels take
  /// memory.
  NcclCollectives(device::Device& device, const std::vector<TensorGroup>& groups);

  void run(const Group& group, const Call& call, device::Stream& stream) override;

  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;
  void set_staging(const StagingMemory&) override {}  // NCCL brings its own buffers

 private:
  void start(const Group& group, const AllReduce& call, device::Stream& stream);
  void start(const Group& group, const AllGather& call, device::Stream& stream);
  /// Reduces in place into this rank's piece of `full`, then adds that to `local`: no staging memory.
  void start(const Group& group, const ReduceScatterAdd& call, device::Stream& stream);
  void start(const Group& group, const ReduceScatter& call, device::Stream& stream);
  void start(const Group& group, const Exchange& call, device::Stream& stream);
  void start(const Group& group, const ExchangeAll& call, device::Stream& stream);

  /// Piece `rank` of `all` = its sum over the group; returns that piece.
  Tensor reduce_scatter_in_place(const Group& group, const Tensor& all, device::Stream& stream);
  void warm_up(const std::vector<TensorGroup>& groups);
  /// Starts all messages together, as one operation of NCCL.
  void send_and_receive(const Group& group, std::span<const Message> sends, std::span<const Message> receives,
                        device::Stream& stream);

  device::Device& device_;
  NcclCommunicators communicators_;  ///< of groups of more than one rank
};

}  // namespace sft::comm
