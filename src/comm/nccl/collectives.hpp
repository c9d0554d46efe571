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
  NcclCollectives(device::Device& device, const std::vector<TensorGroup>& groups, double timeout_s);

  void all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream) override;
  void all_gather(const Group& group, Tensor full, ConstTensor local, device::Stream& stream) override;
  /// Reduces in place into this rank's piece of `full`, then adds that to `local`: no staging memory.
  void reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream) override;
  void reduce_scatter(const Group& group, Tensor inout, device::Stream& stream) override;
  void exchange(const Group& group, Tensor send, int to, Tensor receive, int from, device::Stream& stream) override;
  void exchange_all(const Group& group, const std::vector<Message>& sends, const std::vector<Message>& receives,
                    device::Stream& stream) override;

  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;
  void set_staging(const StagingMemory&) override {}  // NCCL brings its own buffers

 private:
  void warm_up(const std::vector<TensorGroup>& groups);
  /// Starts all messages together, as one operation of NCCL.
  void send_and_receive(const Group& group, const std::vector<Message>& sends, const std::vector<Message>& receives,
                        device::Stream& stream);

  device::Device& device_;
  NcclCommunicators communicators_;  ///< of groups of more than one rank
};

}  // namespace sft::comm
