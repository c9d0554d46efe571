// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a run, planned; and with it what is `auto` in its configuration.

#include <optional>
#include <string>

#include "run_context.hpp"
#include "sft/data/micro_batch_limits.hpp"
#include "sft/ops/listed_products.hpp"
#include "sft/plan/datasets.hpp"
#include "sft/plan/machine.hpp"

namespace sft::apps {

/// A run whose memory its nodes and GPUs have.
struct SettledRun {
  config::ValidConfig config;  ///< nothing in it is `auto` that a run settles from data and memory
  plan::Machine machine;
  std::string sp_choice, save_choice;  ///< why sp_method and checkpoint.async are what they are, for people; else empty
  double step_s = 0;                   ///< planned, on rank 0 with --machine; else 0
  std::string step_time = {};          ///< the same in words (plan::describe)
  std::string ops = {};                ///< and on which ops (plan::describe_ops)
};

/// Chooses the way of attending over the sequence, the kernels of attention, the pieces of a step and whether saves are
/// copied first; plans the memory that follows, and a step's time on the machine that --machine names (empty: it names
/// none). Throws the same configuration Error on every rank where a node or a GPU has less, with the nearest
/// configuration that fits. Collective over the world.
[[nodiscard]] SettledRun settle_run(const RunContext& on, const plan::Datasets& datasets,
                                    const std::string& machine_name);

/// The matrix products of the run, of the rank at `place`. Pure.
[[nodiscard]] ops::ListedProducts list_products(const SettledRun& run, const data::MicroBatchLimits& limits,
                                                const mesh::Place& place);

}  // namespace sft::apps
