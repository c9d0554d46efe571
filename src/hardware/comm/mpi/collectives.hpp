// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives by MPI: point-to-point messages that are all posted at once, and sums in rank order. On the memory of the
// host, or on any other that the MPI library can send and that has a LocalWork.
//
// Open MPI's own reductions take several times as long for the sizes of a training step, and promise no order of
// summation. Each collective is a Steps on its stream.
//
// On tensors in memory of allocate_shared(), the collectives send no messages (WindowCall): an
// all-gather writes this rank's part, reductions read the other ranks' parts where they lie. The sums have the order of
// those by messages, hence the same bits.
//
// Where a group is on several nodes, each of them has such a window of its own, and messages go between nodes alone:
// fewer and less by the number of ranks on a node (node_collectives.hpp, which says what that does to sums).

#include <memory>
#include <vector>

#include "local_work.hpp"
#include "node_collectives.hpp"
#include "sft/comm/collectives.hpp"
#include "shared_window.hpp"
#include "steps.hpp"
#include "window_call.hpp"

namespace sft::comm {

class MpiCollectives final : public Collectives {
 public:
  /// `device`: whose streams the calls are queued on, a host. `work`: on the memory that the tensors lie in.
  /// Destruction is collective over the groups of allocate_shared().
  MpiCollectives(device::Device& device, std::unique_ptr<LocalWork> work);

  void run(const Group& group, const Call& call, device::Stream& stream) override;

  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;
  void set_staging(const StagingMemory& staging) override;

 private:
  void start(const Group& group, const AllReduce& call, device::Stream& stream);
  void start(const Group& group, const AllGather& call, device::Stream& stream);
  void start(const Group& group, const ReduceScatterAdd& call, device::Stream& stream);
  void start(const Group& group, const ReduceScatter& call, device::Stream& stream);
  void start(const Group& group, const Exchange& call, device::Stream& stream);
  void start(const Group& group, const ExchangeAll& call, device::Stream& stream);

  /// Memory for what other ranks send into a reduction; one reduction uses it at a time.
  struct Staging {
    Tensor memory;  // bytes
    std::unique_ptr<device::Event> last_use;
  };

  /// Where the ranks of `group` may send into `staging`: slots of a multiple of 64 bytes, without limit for a single
  /// rank.
  static Contributions received_into(const Staging& staging, const Group& group);
  /// Queues `steps` behind the last user of `staging`.
  static void push(Staging& staging, std::unique_ptr<device::Pending> steps, device::Stream& stream);

  /// The window of `group` for `use` in which `tensor` lies; null where it is other memory.
  [[nodiscard]] SharedWindow* window_of(const Group& group, MemoryUse use, const Tensor& tensor) const;
  /// The same of a group on several nodes.
  [[nodiscard]] const NodeWindow* node_window_of(const Group& group, MemoryUse use, const Tensor& tensor) const;
  void all_reduce_in_window(SharedWindow& window, const AllReduce& call, device::Stream& stream);
  /// Rounds `from` into `wire`.
  Steps::Step rounding(const Tensor& wire, const Tensor& from);

  device::Device& device_;
  const std::unique_ptr<LocalWork> work_;
  Staging reduce_scatter_staging_;
  Staging all_reduce_staging_;
  std::vector<std::unique_ptr<SharedWindow>> windows_;
  std::vector<std::unique_ptr<NodeWindow>> node_windows_;
  bool has_warned_ = false;
};

}  // namespace sft::comm
