// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run would be, without training: the start table with the memory of the whole mesh.

#include <cstddef>
#include <string>

#include "sft/config/valid_config.hpp"
#include "sft/plan/datasets.hpp"
#include "sft/plan/machine.hpp"

namespace sft::plan {

/// The start table of a configuration on any mesh, worked out on one rank; as one JSON object when `json`.
/// `process_bytes`: what a process holds before it trains. `sp_choice`: what resolve_sp_method returned.
[[nodiscard]] std::string dry_run(const config::ValidConfig& config, const Datasets& datasets, const Machine& machine,
                                  std::size_t process_bytes, const std::string& sp_choice, bool json);

}  // namespace sft::plan
