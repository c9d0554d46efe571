// SPDX-License-Identifier: Apache-2.0
#include "sft/train/memory_peaks.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sft/machine/node.hpp"

namespace sft::train {

MemoryPeaks peaks_of(std::span<const RankMemory> ranks, bool are_nodes) {
  MemoryPeaks peaks;
  peaks.min_bytes = peaks.max_bytes = ranks.front().peak_bytes;
  std::int64_t total = 0;
  const auto share = [](std::int64_t used, std::int64_t limit) {
    return static_cast<double>(used) / static_cast<double>(limit);
  };
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankMemory& memory = ranks[rank];
    total += memory.peak_bytes;
    peaks.min_bytes = std::min(peaks.min_bytes, memory.peak_bytes);
    if (memory.peak_bytes > peaks.max_bytes) {
      peaks.max_bytes = memory.peak_bytes;
      peaks.max_rank = static_cast<int>(rank);
    }
    if (memory.limit_bytes <= 0) continue;
    const double here = share(memory.used_bytes, memory.limit_bytes);
    const double before = peaks.fullest ? share(peaks.fullest->used_bytes, peaks.fullest->limit_bytes) : -1.0;
    const bool has_more =  // of a node all ranks have the same share
        here == before && memory.peak_bytes > ranks[static_cast<std::size_t>(peaks.fullest->rank)].peak_bytes;
    if (here > before || has_more) {
      peaks.fullest = {.rank = static_cast<int>(rank),
                       .peak_bytes = memory.peak_bytes,
                       .used_bytes = memory.used_bytes,
                       .limit_bytes = memory.limit_bytes,
                       .is_node = are_nodes};
    }
  }
  peaks.mean_bytes = total / static_cast<std::int64_t>(ranks.size());
  return peaks;
}

MemoryPeaks gather_memory_peaks(device::Device& device, const comm::Session& session) {
  const auto peak = static_cast<std::int64_t>(device.peak_bytes());
  std::array<std::int64_t, 3> own{peak, peak, 0};
  const std::optional<device::OwnMemory> gpu = device.own_memory();
  if (gpu) {
    own[2] = static_cast<std::int64_t>(gpu->total_bytes);
  } else {
    session.node().sum(std::span(own).subspan(1, 1));
    own[2] = static_cast<std::int64_t>(machine::node_memory_bytes().value_or(0));
  }
  const std::vector<std::int64_t> all = session.world().all_gather(std::span<const std::int64_t>(own));
  std::vector<RankMemory> ranks;
  for (std::size_t i = 0; i < all.size(); i += own.size()) ranks.push_back({all[i], all[i + 1], all[i + 2]});
  return peaks_of(ranks, /*are_nodes=*/!gpu);
}

}  // namespace sft::train
