// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/arenas.hpp"

#include <cstddef>
#include <utility>

namespace sft::rank {

SharedBlocks share_blocks(const RankPlan::Arenas& sizes, const mesh::Groups& groups, comm::Collectives& collectives) {
  SharedBlocks blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const ArenaOfCollectives& of = arenas_of_collectives[i];
    blocks[i] = collectives.allocate_shared(groups.*of.group, of.use, (sizes.*of.arena).used_bytes());
  }
  return blocks;
}

RankPlan::Arenas take_arenas(RankPlan::Arenas sizes, SharedBlocks shared, const mesh::Groups& groups,
                             device::Device& device, comm::Collectives& collectives, device::Ledger& ledger) {
  const auto block_for = [&](const device::Arena& arena, device::Space space) {
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const ArenaOfCollectives& of = arenas_of_collectives[i];
      if (&arena != &(sizes.*of.arena)) continue;
      if (shared[i] != nullptr) return std::move(shared[i]);
      return collectives.allocate_own(groups.*of.group, arena.used_bytes());
    }
    return device.allocate(arena.used_bytes(), space);
  };
  for_each_arena(sizes, [&](device::Label label, device::Space space, device::Arena& arena) {
    arena = device::Arena(block_for(arena, space), ledger, label, arena.used_bytes(), space);
  });
  return sizes;
}

}  // namespace sft::rank
