// SPDX-License-Identifier: Apache-2.0
#include "comm/agreement.hpp"
#include "host/collectives.hpp"
#include "mpi/collectives.hpp"
#include "sft/core/error.hpp"
#include "timed_collectives.hpp"
#if SFT_HAVE_CUDA
#include "cuda_mpi/collectives.hpp"
#include "nccl/collectives.hpp"
#endif

namespace sft::comm {

namespace {

std::unique_ptr<Collectives> make_untimed(device::Device& device,
                                          [[maybe_unused]] const std::vector<TensorGroup>& groups,
                                          [[maybe_unused]] const Transport& transport) {
  if (transport.way == Transport::Way::host_copy) {
    return std::make_unique<HostCollectives>(device, groups, transport.timeout_s);
  }
  if (device.kind() == device::Kind::cpu) return std::make_unique<MpiCollectives>(device, make_host_work());
#if SFT_HAVE_CUDA
  if (transport.way == Transport::Way::cuda_mpi) {
    return std::make_unique<CudaMpiCollectives>(device, groups, transport.timeout_s);
  }
  return std::make_unique<NcclCollectives>(device, groups, transport.timeout_s);
#else
  throw_config_error("no collectives for GPU memory", "this program was built without NCCL",
                     "install NCCL and build again with -DSFT_CUDA=ON, or set backend = cpu");
#endif
}

}  // namespace

std::unique_ptr<Collectives> make_collectives(device::Device& device, const std::vector<TensorGroup>& groups,
                                              const Transport& transport) {
  for (const TensorGroup& of : groups) refuse_inside_agree(of.group, "make_collectives");
  return std::make_unique<TimedCollectives>(device.timeline(), make_untimed(device, groups, transport));
}

}  // namespace sft::comm
