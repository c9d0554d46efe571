// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "sft/comm/collectives.hpp"
#include "sft/config/config.hpp"
#include "sft/device/kind.hpp"

namespace sft::train {

/// What a rank computes on, as far as sizes depend on it.
struct Machine {
  device::Kind kind = device::Kind::cpu;
  int num_threads = 1;  ///< OpenMP threads of the rank; device/node.hpp says how many there will be
  /// Of a GPU: what CUDA, its libraries and other programs hold beside the rank's arenas, or will hold.
  std::size_t gpu_process_bytes = 0;
};

/// How tensors of ranks that compute on `kind` travel, as [device] comm says. Pure.
[[nodiscard]] inline comm::Transport::Way way_of(config::CommChoice comm, device::Kind kind) {
  using Way = comm::Transport::Way;
  if (kind == device::Kind::cpu) return Way::direct;
  if (comm == config::CommChoice::host) return Way::host_copy;
  return comm == config::CommChoice::mpi ? Way::cuda_mpi : Way::direct;
}

}  // namespace sft::train
