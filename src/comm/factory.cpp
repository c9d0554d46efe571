// SPDX-License-Identifier: Apache-2.0
#include "mpi/collectives.hpp"
#include "sft/core/error.hpp"
#if SFT_HAVE_CUDA
#include "nccl/collectives.hpp"
#endif

namespace sft::comm {

std::unique_ptr<Collectives> make_collectives(device::Device& device,
                                              [[maybe_unused]] const std::vector<Group>& groups) {
  if (device.kind() == device::Kind::cpu) return std::make_unique<MpiCollectives>(device);
#if SFT_HAVE_CUDA
  return std::make_unique<NcclCollectives>(device, groups);
#else
  throw_config_error("no collectives for GPU memory", "this program was built without NCCL",
                     "install NCCL and build again with -DSFT_CUDA=ON, or set backend = cpu");
#endif
}

}  // namespace sft::comm
