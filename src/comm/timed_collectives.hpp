// SPDX-License-Identifier: Apache-2.0
#pragma once
// What all collectives have in common. Their calls are refused inside the work of Group::agree, and are ranges of a
// timeline, on the stream of each call: "fsdp all_gather". On the CPU a range lasts from the call, or from the end of
// the stream's earlier work, until this rank sees that it is complete.

#include <memory>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/timeline.hpp"

namespace sft::comm {

class TimedCollectives final : public Collectives {
 public:
  TimedCollectives(device::Timeline& timeline, std::unique_ptr<Collectives> inner)
      : timeline_(timeline), inner_(std::move(inner)) {}

  void all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream) override;
  void all_gather(const Group& group, Tensor full, ConstTensor local, device::Stream& stream) override;
  void reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream) override;
  void reduce_scatter(const Group& group, Tensor inout, device::Stream& stream) override;
  void exchange(const Group& group, Tensor send, int to, Tensor receive, int from, device::Stream& stream) override;
  void exchange_all(const Group& group, const std::vector<Message>& sends, const std::vector<Message>& receives,
                    device::Stream& stream) override;
  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;
  void set_staging(const StagingMemory& staging) override;

 private:
  /// call(), as a range, unless the group is this rank alone. `bytes`: of the tensor that the call is about.
  template <class Call>
  void run(const Group& group, const char* name, std::size_t bytes, device::Stream& stream, const Call& call);

  device::Timeline& timeline_;
  std::unique_ptr<Collectives> inner_;
};

}  // namespace sft::comm
