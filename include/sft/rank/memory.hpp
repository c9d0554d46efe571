// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a run as planned, before a byte is taken, and whether there is so much.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "sft/comm/session.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"
#include "sft/mesh/place.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rank/memory_table.hpp"
#include "sft/rank/rank_plan.hpp"

namespace sft::rank {

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

}  // namespace sft::rank
