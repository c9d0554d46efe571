// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives on host memory: point-to-point messages that are all posted at once, and sums in rank order.
//
// Open MPI's own reductions take several times as long for the sizes of a training step, and promise no order of
// summation. Each collective is a Steps on its stream.

#include <memory>

#include "sft/comm/collectives.hpp"

namespace sft::comm {

class MpiCollectives final : public Collectives {
 public:
  explicit MpiCollectives(device::Device& device);

  void all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream) override;
  void all_gather(const Group& group, Tensor full, Tensor local, device::Stream& stream) override;
  void reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream) override;
  void reduce_scatter(const Group& group, Tensor inout, device::Stream& stream) override;
  void exchange(const Group& group, Tensor send, int to, Tensor receive, int from, device::Stream& stream) override;
  void exchange_all(const Group& group, const std::vector<Message>& sends, const std::vector<Message>& receives,
                    device::Stream& stream) override;

  void set_staging(const StagingMemory& staging) override;

 private:
  /// Memory for what other ranks send into a reduction; one reduction uses it at a time.
  struct Staging {
    Tensor memory;  // bytes
    std::unique_ptr<device::Event> last_use;
  };

  /// What one rank of `group` may send into `staging` at a time, a multiple of 64 bytes; unlimited for a single rank.
  static std::size_t slot_bytes(const Staging& staging, const Group& group);
  /// Queues `steps` behind the last user of `staging`.
  static void push(Staging& staging, std::unique_ptr<device::Pending> steps, device::Stream& stream);

  Staging reduce_scatter_staging_;
  Staging all_reduce_staging_;
};

}  // namespace sft::comm
