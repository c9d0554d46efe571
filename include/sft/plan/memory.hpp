// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of all ranks: as planned, before a byte is taken, and as entered in their ledgers.

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "sft/comm/session.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"
#include "sft/mesh/place.hpp"
#include "sft/plan/datasets.hpp"
#include "sft/plan/machine.hpp"

namespace sft::plan {

class RankPlan;

/// What the ranks of a mesh use, least and most; the first rank with the most.
struct MemoryRange {
  std::size_t least_bytes = 0, most_bytes = 0;
  WorldRank most_rank = 0;
};
struct MemoryTable {
  std::array<MemoryRange, device::num_labels> labels;  ///< by device::Label
  MemoryRange total;
  MemoryRange on_gpu, on_node;  ///< of the total: in a GPU's own memory (zero on CPUs), and in the node's
  /// Of all ranks of a node together, where that is planned: the fullest one is that of its first rank. Else zero.
  MemoryRange nodes;
};

/// The ledger that rank place.rank() will have when it trains: by the code that lays the
/// memory out, over sizing arenas. `process_bytes`: what a process holds before that. Pure but for the data sets'
/// facts.
[[nodiscard]] device::Ledger plan_ledger(const config::ValidConfig& config, const Datasets& datasets,
                                         const mesh::Place& place, const Machine& machine, std::size_t process_bytes);

/// The same of a plan that is there.
[[nodiscard]] device::Ledger plan_ledger(RankPlan& plan, const config::ValidConfig& config, const Datasets& datasets,
                                         std::size_t process_bytes);

/// The same for micro-batches within `limits`, of data that is not there: without what is read ahead of it. Pure.
[[nodiscard]] device::Ledger plan_ledger(const config::ValidConfig& config, const rows::MicroBatchLimits& limits,
                                         const mesh::Place& place, const Machine& machine, std::size_t process_bytes);

/// The same without what batches take, and what a step has to be rehearsed for (plan_products).
[[nodiscard]] device::Ledger plan_fixed_ledger(RankPlan& plan, std::size_t process_bytes);

/// plan_ledger() of every rank of the mesh, on nodes of so many ranks, worked out on one rank.
[[nodiscard]] MemoryTable plan_memory(const config::ValidConfig& config, const Datasets& datasets,
                                      const Machine& machine, std::size_t process_bytes, int ranks_per_node);
/// The same with all ranks on one node.
[[nodiscard]] MemoryTable plan_memory(const config::ValidConfig& config, const Datasets& datasets,
                                      const Machine& machine, std::size_t process_bytes);

/// The ledgers of all ranks, which compute on devices of `kind`. Collective over `world`.
[[nodiscard]] MemoryTable gather_memory(const device::Ledger& ledger, device::Kind kind, const comm::Group& world);

/// A line for each label, and the total; with GPUs also how much of it lies where.
[[nodiscard]] std::string format_memory(const MemoryTable& table);

/// Whether no rank needs more than its part of a GPU, `own` (Device::own_memory), none on CPUs, and no node's ranks
/// more than it has, `node_bytes`, none when the system does not tell. `planned`: this rank's ledger. Collective over
/// the world and each node.
[[nodiscard]] bool fits_memory(const device::Ledger& planned, device::Kind kind, std::optional<std::size_t> node_bytes,
                               const std::optional<device::OwnMemory>& own, const comm::Session& session);

/// Refuses a run whose ranks need more of their node's memory than there is, its RAM or the limit of its control group:
/// prints the planned memory of all ranks, then throws a configuration Error that every rank holds. `planned`: this
/// rank's ledger; `node_bytes`: none when the system does not tell. `advice` says on rank 0 what would fit, and is
/// asked where the run does not; an empty answer is left out. Collective over the world and each node.
void require_node_memory(const device::Ledger& planned, device::Kind kind, std::optional<std::size_t> node_bytes,
                         const comm::Session& session, const std::function<std::string()>& advice = {});

/// Refuses a run of which a rank needs more than its part of a GPU, as require_node_memory does; `own` is this rank's
/// (Device::own_memory), none on CPUs. Collective over the world.
void require_gpu_memory(const device::Ledger& planned, const std::optional<device::OwnMemory>& own,
                        const comm::Group& world, const std::function<std::string()>& advice = {});

}  // namespace sft::plan
