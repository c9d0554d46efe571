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
#include "sft/comm/collectives.hpp"

namespace sft::comm {

class CudaMpiCollectives final : public Collectives {
 public:
  explicit CudaMpiCollectives(device::Device& gpu);

  void run(const Group& group, const Call& call, device::Stream& stream) override;

  /// Memory of the GPU; none is shared.
  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;

  /// Device memory.
  void set_staging(const StagingMemory& staging) override;

 private:
  device::Device& gpu_;
  const std::unique_ptr<device::Device> host_;
  const std::unique_ptr<device::Stream> host_stream_;
  MpiCollectives mpi_;  ///< whose streams are the host's, and whose tensors are the GPU's
};

}  // namespace sft::comm
