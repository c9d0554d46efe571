// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rank has most memory, and where least is left: the next larger batch ends the run there.

#include <cstdint>
#include <span>

#include "sft/comm/session.hpp"
#include "sft/device/device.hpp"
#include "sft/train/metrics.hpp"

namespace sft::train {

/// What a rank tells of its memory.
struct RankMemory {
  std::int64_t peak_bytes = 0;   ///< the most that it has used so far
  std::int64_t used_bytes = 0;   ///< of what the limit is for: of its GPU, or the peaks of all ranks of its node
  std::int64_t limit_bytes = 0;  ///< 0: not known
};

/// `ranks`: by rank, at least one. `are_nodes`: limits are those of nodes. Pure.
[[nodiscard]] MemoryPeaks peaks_of(std::span<const RankMemory> ranks, bool are_nodes);

/// Those of all ranks now, which compute on devices of one kind. Collective over the world and each node.
[[nodiscard]] MemoryPeaks gather_memory_peaks(device::Device& device, const comm::Session& session);

}  // namespace sft::train
