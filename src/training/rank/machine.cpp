// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/machine.hpp"

#include "sft/model/head_split.hpp"
#include "sft/parallel/sharding_policy.hpp"

namespace sft::rank {

namespace {

constexpr std::size_t assumed_gpu_context_bytes = std::size_t{512} << 20;
constexpr std::size_t assumed_gpu_group_bytes = std::size_t{256} << 20;

}  // namespace

mesh::Sharing sharing_of(const config::ValidConfig& config, device::Kind kind) {
  mesh::Sharing sharing = parallel::sharing_of(parallel::sharding_policy(config->parallel),
                                               model::kv_replicas(config->model, config->parallel.tp_size));
  sharing.gathers_apart =
      kind == device::Kind::cuda && way_of(config->device.comm, kind) == comm::Transport::Way::direct;
  return sharing;
}

std::size_t assumed_gpu_process_bytes(const config::ValidConfig& config) {
  const std::size_t num_groups =
      mesh::Groups::planned(mesh::Place(config, 0), sharing_of(config, device::Kind::cuda)).of_tensors().size();
  return assumed_gpu_context_bytes + num_groups * assumed_gpu_group_bytes + later_gpu_bytes;
}

}  // namespace sft::rank
