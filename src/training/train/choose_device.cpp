// SPDX-License-Identifier: Apache-2.0
#include "sft/train/choose_device.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "sft/rank/machine.hpp"

namespace sft::train {

namespace {

bool is_usable(const machine::Gpu& gpu) { return gpu.compute_capability >= machine::least_compute_capability; }

/// NCCL refuses ranks that share a GPU.
bool may_share_gpus(config::CommChoice comm) {
  return comm == config::CommChoice::host || comm == config::CommChoice::mpi;
}

/// The GPUs that this build can compute on.
machine::VisibleGpus usable_gpus() {
  if (!ops::is_built(device::Kind::cuda)) return {{}, "this program has no CUDA kernels"};
  return machine::visible_gpus();
}

/// What each rank of this node gets. Collective over the node.
std::vector<machine::DealtGpu> deal(const machine::VisibleGpus& mine, const comm::Group& node, bool may_share) {
  std::vector<machine::VisibleGpus> seen;
  for (const std::string& text : node.all_gather(machine::to_text(mine))) seen.push_back(machine::from_text(text));
  return machine::deal_gpus(seen, may_share);
}

}  // namespace

Verdict judge(config::BackendChoice wanted, const GpuCounts& counts) {
  if (wanted == config::BackendChoice::cpu) return Verdict::cpu;
  if (counts.served == counts.ranks) return Verdict::cuda;
  if (wanted == config::BackendChoice::cuda || counts.served > 0 || counts.broken > 0) return Verdict::refused;
  return counts.seeing > 0 ? Verdict::cpu_beside_gpus : Verdict::cpu;
}

DeviceChoice choose_device(const config::Device& wanted, const comm::Session& session) {
  if (wanted.backend == config::BackendChoice::cpu) return {};
  const comm::Group& world = session.world();
  world.agree([&] {
    if (wanted.backend == config::BackendChoice::cuda) ops::require_built(device::Kind::cuda);
  });
  const machine::VisibleGpus mine = usable_gpus();
  const std::vector<machine::DealtGpu> dealt = deal(mine, session.node(), may_share_gpus(wanted.comm));
  const bool is_served =
      std::ranges::none_of(dealt, [](const machine::DealtGpu& gpu) { return gpu.refusal.has_value(); });
  const bool sees = std::ranges::any_of(mine.gpus, is_usable);
  std::array<std::int64_t, 3> sums{sees ? 1 : 0, is_served ? 1 : 0, mine.is_broken ? 1 : 0};
  world.sum(std::span<std::int64_t>(sums));

  const machine::DealtGpu& gpu = dealt[session.node().rank()];
  switch (judge(wanted.backend, {.ranks = world.size(), .seeing = sums[0], .served = sums[1], .broken = sums[2]})) {
    case Verdict::cuda:
      return {device::Kind::cuda, gpu};
    case Verdict::refused:
      world.agree([&] {
        if (gpu.refusal) throw Error(*gpu.refusal);
      });
      break;
    case Verdict::cpu_beside_gpus:
      log_warning(fmt::format(
          "this run computes on CPUs, though there are GPUs: {} of {} see one, but no node has one for each of its "
          "ranks; start fewer ranks a node, or let ranks share GPUs with [device] backend = cuda and comm = host",
          sums[0], plural(world.size(), "rank")));
      break;
    case Verdict::cpu:
      break;
  }
  return {};
}

comm::Transport transport_of(const config::Device& wanted, device::Kind kind) {
  if (kind == device::Kind::cpu && wanted.comm == config::CommChoice::nccl) {
    throw_config_error("`device.comm = nccl` has nothing to send", "the ranks compute on CPUs, as no GPUs are at hand",
                       "leave comm out, or set backend = cuda to see what is missing");
  }
  const comm::Transport transport{.way = rank::way_of(wanted.comm, kind)};
  if (transport.way == comm::Transport::Way::cuda_mpi) comm::require_cuda_mpi();
  return transport;
}

void require_fitting_device(const config::Config& config, device::Kind kind, int compute_capability) {
  if (kind == device::Kind::cuda && compute_capability != 0) {
    config::require_fp8_of_gpu(config.train, compute_capability);
    config::require_attention_of_gpu(config.device, compute_capability);
  }
  const bool moves_weights = kind == device::Kind::cuda && config.train.offload_parameters == config::Offload::host;
  if (moves_weights && config.parallel.zero_stage < 3) config::require_master_weights(config.train);
}

OpenedDevice open_device(const config::ValidConfig& config, const comm::Session& session) {
  const auto [kind, gpu] = choose_device(config->device, session);
  OpenedDevice opened;
  session.world().agree([&, kind = kind, gpu = gpu] {
    opened.transport = transport_of(config->device, kind);
    require_fitting_device(config, kind, gpu.compute_capability);
    if (kind == device::Kind::cuda && config->train.fp8 == config::Fp8::blockwise) ops::require_fp8_tiles();
    opened.device = device::make_device(
        kind, {.num_local_ranks = session.node().size(), .gpu = gpu.index, .num_sharing = gpu.num_sharing});
  });
  return opened;
}

}  // namespace sft::train
