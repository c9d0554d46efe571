// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives on the memory of any device through pinned memory of the node and MPI: for ranks that share a GPU, which
// NCCL refuses, and for machines without NCCL's networks.
//
// Each call copies to the host, waits for the copy, lets MPI do the rest, and queues the copies back. So a call holds
// the host up until everything queued before it on its stream is done and the other ranks have come to it: nothing
// overlaps with communication. Sums are those of the collectives of the CPU, in the order of ranks.

#include <memory>
#include <string>
#include <vector>

#include "comm/mpi/steps.hpp"
#include "sft/comm/collectives.hpp"

namespace sft::comm {

class HostCollectives final : public Collectives {
 public:
  HostCollectives(device::Device& device, const std::vector<TensorGroup>& groups);

  void run(const Group& group, const Call& call, device::Stream& stream) override;

  /// Memory of the device, none of it shared: copies go from and to any memory.
  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;

  /// `staging` comes from take_host_staging.
  void set_staging(const StagingMemory& staging) override;

 private:
  void start(const Group& group, const AllReduce& call, device::Stream& stream);
  void start(const Group& group, const AllGather& call, device::Stream& stream);
  void start(const Group& group, const ReduceScatterAdd& call, device::Stream& stream);
  void start(const Group& group, const ReduceScatter& call, device::Stream& stream);
  void start(const Group& group, const Exchange& call, device::Stream& stream);
  void start(const Group& group, const ExchangeAll& call, device::Stream& stream);

  class Copies;
  /// A part of a message that fits into half of the pinned memory.
  struct Chunk {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };

  [[nodiscard]] std::byte* pinned() const { return pinned_.as<std::byte>(); }
  /// The pinned memory cut into `num_slots` of a size that any element divides.
  [[nodiscard]] std::size_t slot_bytes(int num_slots) const;
  [[nodiscard]] std::vector<Chunk> chunks_of(const Tensor& message) const;
  /// Rounds of one chunk each way, one after the other, to rank `to` and from rank `from`.
  void append_rounds(std::vector<Steps::Step>& steps, const std::vector<Chunk>& sends, int to,
                     const std::vector<Chunk>& receives, int from, device::Stream& stream) const;
  /// Lets MPI do `steps`, until the end.
  void run_steps(const Group& group, const char* name, std::vector<Steps::Step> steps);

  device::Device& device_;
  std::unique_ptr<device::Device> host_;
  std::unique_ptr<device::Stream> host_stream_;
  std::unique_ptr<Collectives> on_host_;   ///< of pinned memory
  std::unique_ptr<device::Event> copied_;  ///< the last copies from pinned memory
  Tensor pinned_;
};

}  // namespace sft::comm
