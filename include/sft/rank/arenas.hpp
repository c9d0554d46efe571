// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a rank takes its memory: first what it shares with others, together with them, then its own, which may be missing
// on one rank.

#include <array>

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/rank/rank_plan.hpp"

namespace sft::rank {

/// An arena that collectives work in, over which group and how.
struct ArenaOfCollectives {
  device::Arena RankPlan::Arenas::*arena;
  comm::Group mesh::Groups::*group;
  comm::MemoryUse use;
};
inline constexpr std::array<ArenaOfCollectives, 7> arenas_of_collectives{{
    {&RankPlan::Arenas::gathered_units, &mesh::Groups::gathers, comm::MemoryUse::gathered},
    {&RankPlan::Arenas::reduced_units, &mesh::Groups::fsdp, comm::MemoryUse::reduced},
    {&RankPlan::Arenas::gradients, &mesh::Groups::replicate, comm::MemoryUse::reduced},
    {&RankPlan::Arenas::gathered_experts, &mesh::Groups::expert_gathers, comm::MemoryUse::gathered},
    {&RankPlan::Arenas::reduced_experts, &mesh::Groups::expert_fsdp, comm::MemoryUse::reduced},
    {&RankPlan::Arenas::expert_gradients, &mesh::Groups::expert_replicate, comm::MemoryUse::reduced},
    {&RankPlan::Arenas::tp_sums, &mesh::Groups::tp, comm::MemoryUse::reduced},
}};

/// What ranks share for each of them; empty where they share nothing.
using SharedBlocks = std::array<device::Device::Block, arenas_of_collectives.size()>;

/// For arenas of the sizes that `sizes` counted. Collective over their groups; no rank fails alone for want of memory.
[[nodiscard]] SharedBlocks share_blocks(const RankPlan::Arenas& sizes, const mesh::Groups& groups,
                                        comm::Collectives& collectives);

/// Real arenas of these sizes, in `shared` where there is such a block. Local. Throws as Device::allocate.
[[nodiscard]] RankPlan::Arenas take_arenas(RankPlan::Arenas sizes, SharedBlocks shared, const mesh::Groups& groups,
                                           device::Device& device, comm::Collectives& collectives,
                                           device::Ledger& ledger);

}  // namespace sft::rank
