// SPDX-License-Identifier: Apache-2.0
#include "comm/gpu/make_collectives.hpp"

#include "comm/cuda_mpi/collectives.hpp"
#include "comm/nccl/collectives.hpp"

namespace sft::comm {

std::unique_ptr<Collectives> make_gpu_collectives(device::Device& device, const std::vector<TensorGroup>& groups,
                                                  const Transport& transport) {
  if (transport.way == Transport::Way::cuda_mpi) return std::make_unique<CudaMpiCollectives>(device);
  return std::make_unique<NcclCollectives>(device, groups);
}

}  // namespace sft::comm
