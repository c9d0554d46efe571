// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table that a run opens with.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/comm/traffic.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/kind.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/memory_table.hpp"

namespace sft::rank {

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
  bool repeats_launches = false;            ///< repeats_launches
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

/// "fsdp 9.4 MiB, sp 3.0 MiB"; "nothing".
[[nodiscard]] std::string describe_traffic(const std::vector<comm::SentBytes>& sent);

/// What a mesh is warned of before it runs: units whose gathers go through more ranks, one after the other, than is
/// worth it. Empty: nothing. Pure.
[[nodiscard]] std::string warning_of_mesh(const config::Parallel& parallel);

}  // namespace sft::rank
