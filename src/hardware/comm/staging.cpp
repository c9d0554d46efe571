// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sft/comm/collectives.hpp"

namespace sft::comm {

StagingMemory take_staging(device::Kind kind, device::Arena& arena, const StagingPlan& plan) {
  if (kind != device::Kind::cpu) return {};  // NCCL brings its own buffers
  // Larger reductions run in rounds.
  constexpr std::size_t max_bytes = std::size_t{16} << 20;
  constexpr std::size_t min_bytes = std::size_t{64} << 10;
  const auto take_clamped = [&](std::size_t wanted_bytes) {
    const std::size_t bytes = std::clamp(wanted_bytes, min_bytes, max_bytes);
    return take(arena, DType::int32, {static_cast<std::int64_t>(bytes / size_of(DType::int32))});
  };
  StagingMemory staging;
  staging.reduce_scatter = take_clamped(plan.max_reduce_scatter_bytes);
  staging.all_reduce = take_clamped(plan.max_all_reduce_bytes);
  return staging;
}

StagingMemory take_host_staging(device::Arena& pinned, const StagingPlan& plan) {
  // Large enough for copies at the full speed of the bus, small enough for many ranks on one node. The same on all
  // ranks, whatever the plan: messages are cut by it.
  constexpr std::int64_t bytes = std::int64_t{16} << 20;
  StagingMemory staging = take_staging(device::Kind::cpu, pinned, plan);
  staging.host_copies = take(pinned, DType::int32, {bytes / static_cast<std::int64_t>(size_of(DType::int32))});
  return staging;
}

StagingMemory take_staging(device::Kind kind, Transport::Way way, device::Arena& arena, device::Arena& pinned,
                           const StagingPlan& plan) {
  switch (way) {
    case Transport::Way::direct:
      return take_staging(kind, arena, plan);
    case Transport::Way::host_copy:
      return take_host_staging(pinned, plan);
    case Transport::Way::cuda_mpi:
      return take_staging(device::Kind::cpu, arena, plan);  // MPI's sums, in the memory of the GPU
  }
  return {};
}

}  // namespace sft::comm
