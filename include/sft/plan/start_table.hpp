// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table that a run opens with, and what a run would be, without training.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/comm/session.hpp"
#include "sft/comm/traffic.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/layout.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/plan/datasets.hpp"
#include "sft/plan/hardware.hpp"
#include "sft/plan/memory.hpp"
#include "sft/plan/verdict.hpp"

namespace sft::plan {

/// What the table says. Empty texts have no line.
struct StartFacts {
  const config::ValidConfig& config;
  device::Kind kind;  ///< that the ranks compute on
  const Datasets& datasets;
  parallel::ParameterCounts num_parameters;
  std::string nodes;      ///< where the ranks are
  std::string device;     ///< what a rank computes on
  std::string origin;     ///< of the weights
  std::string sp_choice;  ///< why resolve_sp_method took what it took
  std::int64_t num_steps;
  MemoryTable memory;
  std::vector<comm::SentBytes> traffic;     ///< of the first rank, in a step (plan_traffic)
  bool repeats_launches = false;            ///< plan::repeats_launches
  std::uint64_t offloaded_bytes = 0;        ///< of rank 0's state in files
  std::uint64_t activation_file_bytes = 0;  ///< of the file that rank 0's activations are offloaded to
  std::string save = "";                    ///< what a checkpoint takes (describe(SaveTime))
  std::string save_choice = "";             ///< why choose_async_save took what it took
  std::string step_time = "";               ///< what a step takes (describe(StepTime))
  std::string ops = "";                     ///< on which ops (describe_ops(StepTime))
  std::string duration = "";                ///< what the run takes (describe_duration)
  std::string verdict = "";                 ///< whether it fits (describe(Verdict))
};

/// Mesh, model, batch, steps, data, device, what a rank sends, and memory per rank. Pure but for facts of the data
/// sets.
[[nodiscard]] std::string start_table(const StartFacts& facts);

/// What a dry run is of.
struct DryRun {
  const config::ValidConfig& config;
  const Datasets& datasets;
  const Machine& machine;
  std::size_t process_bytes = 0;          ///< what a process holds before it trains
  std::string sp_choice = "";             ///< what resolve_sp_method returned
  std::string weights = "";               ///< what the run begins with, which was looked at
  std::optional<Hardware> hardware = {};  ///< that the time of a step is planned for
  int ranks_per_node = 1;                 ///< of nodes that are filled in order
  Room room = {};                         ///< that the memory is held against
};

/// The start table of a configuration on any mesh, worked out on one rank; as one JSON object when `json`.
[[nodiscard]] std::string dry_run(const DryRun& of, bool json);

/// What a mesh is warned of before it runs: units whose gathers go through more ranks, one after the other, than is
/// worth it. Empty: nothing. Pure.
[[nodiscard]] std::string warning_of_mesh(const config::Parallel& parallel);

/// The node of every rank: equal numbers are one node. Collective over the world.
[[nodiscard]] IndexedVector<WorldRank, int> nodes_of_ranks(const comm::Session& session);
/// "2 nodes; between them: dp_replicate". Pure.
[[nodiscard]] std::string describe_nodes(const mesh::Layout& layout, const IndexedVector<WorldRank, int>& node_of_rank);
/// What `device` computes with.
[[nodiscard]] std::string describe_device(const device::Device& device);

}  // namespace sft::plan
