// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which mesh, and how: every legal way to train a model on a machine, judged by the plan that a run of it would make:
// its memory by the ledger, its time by a rehearsal on clocks.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/ledger.hpp"
#include "sft/planner/row_lengths.hpp"
#include "sft/planner/step_time.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rank/save_time.hpp"
#include "sft/rows/micro_batch_limits.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::planner {

/// What is to be planned.
struct PlanTask {
  config::Config base;          ///< complete but for what is searched: model, precision, optimizer ...
  std::set<std::string> fixed;  ///< names of keys whose value in `base` stays ("tp_size")
  /// Names of keys that change what is trained, and are searched as well: of "optim", "reduce_dtype", "tp_reduce".
  std::set<std::string> searched = {};
  simulator::Hardware hardware;
  std::int64_t max_length = 0;             ///< of a row, in tokens
  std::int64_t document_tokens = 0;        ///< the longest document; 0: max_length
  std::int64_t rows_per_step = 0;          ///< of all ranks and micro-batches
  std::optional<RowLengths> lengths = {};  ///< of rows, for the time of a step; none: rows are full
  /// The limits of the micro-batches of a configuration, of data that is there; empty: rows may be full.
  std::function<rows::MicroBatchLimits(const config::ValidConfig&)> measured_limits = {};
  int num_threads = 1;                    ///< of a rank, on CPUs
  std::size_t huge_page_bytes = 0;        ///< machine::unasked_huge_page_bytes of the machine that is planned for
  std::size_t process_bytes = 256 << 20;  ///< of the node's memory that a process takes beside what the ledger lists
};

/// The memory that the fullest rank needs, and the fullest node.
struct PlannedMemory {
  device::Ledger fullest;        ///< of the rank with the most on its device
  std::size_t device_bytes = 0;  ///< on a GPU; 0 on CPUs
  std::size_t node_bytes = 0;    ///< of all ranks of a node

  /// What of it is not there; 0: it fits.
  [[nodiscard]] std::size_t missing_bytes(const simulator::Hardware& hardware) const;
};

/// A way to train. `time` is there once it was rehearsed.
struct Candidate {
  config::ValidConfig config;
  PlannedMemory memory;
  StepTime time = {};
};

/// How far a search went.
struct SearchCounts {
  std::int64_t legal = 0, fitting = 0, rehearsed = 0;
};

struct SearchResult {
  std::vector<Candidate> best;  ///< the fastest of each mesh, the fastest first: three at most
  SearchCounts counts;
};

/// The share of a GPU's memory that plans leave free, for what allocators lose and contexts take beyond what is
/// assumed.
inline constexpr double reserved_share = 0.02;

/// Every legal way to train `task` in the order of the search; `visit` returns whether it fits, and where it does not,
/// those that only differ by larger micro-batches are left out.
void for_each_candidate(const PlanTask& task, const std::function<bool(const config::ValidConfig&)>& visit);

/// The memory of a way to train: of the ranks of all kinds where there are at most `most_ranks`, else of so many of
/// them. Pure.
[[nodiscard]] PlannedMemory plan_candidate_memory(const PlanTask& task, const config::ValidConfig& config,
                                                  int most_ranks);

/// A way to train with its memory where it fits, in pieces where keys that are auto have to take them
/// (choose_pieces), and nothing where it does not, which takes a fraction of the time. Pure.
[[nodiscard]] std::optional<Candidate> fitting_candidate(const PlanTask& task, const config::ValidConfig& config,
                                                         int most_ranks);

/// The fastest ways that fit. Throws a configuration Error where the hardware is known not to compute what is asked for
/// in any of them. Pure.
[[nodiscard]] SearchResult search_plans(const PlanTask& task);

/// What a user would try first: units over all ranks (ZeRO-3), one row at a time, nothing recomputed or offloaded.
/// None where not even that is legal. Pure.
[[nodiscard]] std::optional<Candidate> obvious_plan(const PlanTask& task);

/// The machine of the same devices, with the fewest of them, on which any plan fits; up to 64 nodes. None: no such
/// machine. Pure.
[[nodiscard]] std::optional<simulator::Hardware> smallest_machine(const PlanTask& task);

/// What a checkpoint of it takes. Pure.
[[nodiscard]] rank::SaveTime plan_candidate_save(const PlanTask& task, const config::ValidConfig& config);

/// A way to train that fits where another does not, what has to be set for it, and what it costs.
struct NearbyPlan {
  Candidate candidate;
  std::vector<config::Difference> keys;  ///< from the other one to this
  double step_ratio = 1;                 ///< time of a step, by that of the other one
};

/// The fitting way to train with the fewest keys changed from `config`, which does not fit, and of those the fastest.
/// Keys that name a place or a result (steps, rates) stay, and so does the batch of a step. None: nothing fits. Pure.
[[nodiscard]] std::optional<NearbyPlan> nearest_plan(const PlanTask& task, const config::ValidConfig& config);

/// "--train.activation_checkpointing full (needs 3.1 GiB of 4 GiB; a step takes 1.3 times as long)". Pure.
[[nodiscard]] std::string describe(const NearbyPlan& plan, const simulator::Hardware& hardware);

/// Seconds of a step by its operations and bytes alone: which candidates are worth a rehearsal, and nothing else. Pure.
[[nodiscard]] double estimated_step_s(const PlanTask& task, const config::ValidConfig& config);

/// The time of a step, of rows of task.lengths. Pure.
[[nodiscard]] StepTime plan_candidate_time(const PlanTask& task, const config::ValidConfig& config);

/// The longest row, in steps of `step` tokens, and the largest micro-batch of rows that fit with all else as in
/// `config`, up to 2^24 tokens a micro-batch. Pure.
[[nodiscard]] std::int64_t longest_row(const PlanTask& task, const config::ValidConfig& config, std::int64_t step);
[[nodiscard]] std::int64_t largest_micro_batch(const PlanTask& task, const config::ValidConfig& config);

}  // namespace sft::planner
