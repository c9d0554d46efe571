// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a run, planned; and with it what is `auto` in its configuration.

#include <cstddef>
#include <string>
#include <vector>

#include "run_context.hpp"
#include "sft/comm/traffic.hpp"
#include "sft/ops/listed_products.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rows/micro_batch_limits.hpp"

namespace sft::apps {

/// A run whose memory its nodes and GPUs have.
struct SettledRun {
  config::ValidConfig config;  ///< nothing in it is `auto` that a run settles from data and memory
  rank::Machine machine;
  std::string sp_choice, save_choice;  ///< why sp_method and checkpoint.async are what they are, for people; else empty
  std::size_t product_bytes = 0;       ///< of host memory, for the machine code of its matrix products
  std::vector<comm::SentBytes> traffic = {};  ///< what this rank sends in a step
  double step_s = 0;                          ///< planned, on rank 0 with --machine; else 0
  std::string step_time = {};                 ///< the same in words (planner::describe)
  std::string ops = {};                       ///< and on which ops (planner::describe_ops)
};

/// Chooses the way of attending over the sequence, the kernels of attention, the pieces of a step and whether saves are
/// copied first; plans the memory that follows, and a step's time on the machine that --machine names (empty: it names
/// none). Throws the same configuration Error on every rank where a node or a GPU has less, with the nearest
/// configuration that fits. Collective over the world.
[[nodiscard]] SettledRun settle_run(const RunContext& on, const rank::Datasets& datasets,
                                    const std::string& machine_name);

/// The matrix products of the run, of the rank at `place`. Pure.
[[nodiscard]] ops::ListedProducts list_products(const SettledRun& run, const rows::MicroBatchLimits& limits,
                                                const mesh::Place& place);

}  // namespace sft::apps
