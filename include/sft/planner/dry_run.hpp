// SPDX-License-Identifier: Apache-2.0
#pragma once
// The start table of a run that does not train.

#include <cstddef>
#include <optional>
#include <string>

#include "sft/config/valid_config.hpp"
#include "sft/planner/verdict.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::planner {

/// The run that a dry run is for.
struct DryRun {
  const config::ValidConfig& config;
  const rank::Datasets& datasets;
  const rank::Machine& machine;
  std::size_t process_bytes = 0;                     ///< what a process holds before it trains
  std::string sp_choice = "";                        ///< what resolve_sp_method returned
  std::string weights = "";                          ///< what the run begins with, which was looked at
  std::optional<simulator::Hardware> hardware = {};  ///< that the time of a step is planned for
  int ranks_per_node = 1;                            ///< of nodes that are filled in order
  Room room = {};                                    ///< that the memory is held against
};

/// The start table of a configuration on any mesh, worked out on one rank; as one JSON object when `json`.
[[nodiscard]] std::string dry_run(const DryRun& of, bool json);

}  // namespace sft::planner
