// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run that is planned on one process for a machine that need not be there: `sft --dry-run` and what else asks first
// what a run would be.

#include <cstddef>
#include <optional>
#include <string>

#include "options.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/planner/verdict.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::apps {

struct PlannedRun {
  rank::Datasets datasets;
  std::optional<simulator::Hardware> hardware;  ///< none: nodes like this one
  int ranks_per_node;
  rank::Machine machine;
  config::ValidConfig config;    ///< nothing in it is auto that a run settles from data and memory
  std::string sp_choice;         ///< why sp_method is what it is, for people; else empty
  std::string choice_of_pieces;  ///< the same of mlp_tile_tokens and attention_head_groups
  planner::Room room;
  std::size_t process_bytes;
};

/// What the run of `given` would be on the machine that the command line names. Throws a configuration Error where no
/// such run can be. One rank.
[[nodiscard]] PlannedRun plan_run(const config::ValidConfig& given, const SftOptions& command);

}  // namespace sft::apps
