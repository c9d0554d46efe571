// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives on the memory of GPUs by an MPI library that sends it from where it lies (CUDA-aware MPI).
//
// A call waits until what was queued before it on its stream is done, for MPI knows of no streams, and returns when its
// result is there: nothing overlaps with communication. Messages and sums are those of the collectives of the CPU, with
// the GPU adding up what arrives: so the bits are those of host copies too.

#include <memory>
#include <vector>

#include "comm/mpi/collectives.hpp"
#include "comm/watchdog.hpp"
#include "sft/comm/collectives.hpp"

namespace sft::comm {

class CudaMpiCollectives final : public Collectives {
 public:
  /// `timeout_s`: of the watchdog.
  CudaMpiCollectives(device::Device& gpu, const std::vector<TensorGroup>& groups, double timeout_s);

  void all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream) override;
  void all_gather(const Group& group, Tensor full, ConstTensor local, device::Stream& stream) override;
  void reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream) override;
  void reduce_scatter(const Group& group, Tensor inout, device::Stream& stream) override;
  void exchange(const Group& group, Tensor send, int to, Tensor receive, int from, device::Stream& stream) override;
  void exchange_all(const Group& group, const std::vector<Message>& sends, const std::vector<Message>& receives,
                    device::Stream& stream) override;

  /// Of the GPU.
  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;

  /// Device memory.
  void set_staging(const StagingMemory& staging) override;

 private:
  /// Runs a collective of the given name from its beginning to its end, behind what `stream` has queued.
  template <class Collective>
  void run(const Group& group, const char* name, std::size_t bytes, device::Stream& stream,
           const Collective& collective);

  device::Device& gpu_;
  const std::vector<TensorGroup> groups_;
  Watchdog watchdog_;
  const std::unique_ptr<device::Device> host_;
  const std::unique_ptr<device::Stream> host_stream_;
  MpiCollectives mpi_;  ///< whose streams are the host's, and whose tensors are the GPU's
};

}  // namespace sft::comm
