// SPDX-License-Identifier: Apache-2.0
#pragma once
// This machine, measured: `sft-plan --machine here`.

#include <optional>
#include <string>

#include "sft/config/config.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::apps {

/// Ranks that "here" or "herex8" stands for, 0 for "here"; none: it is another name. Pure.
[[nodiscard]] std::optional<int> ranks_of_here(const std::string& name);

/// Starts as many ranks beside this program, a rank for each core or GPU where it is 0, which measure the machine as
/// `sft --check --write_machine` does, in the precision of `train` and on the device of `backend`. `keep`: where the
/// file stays that they write; empty: nowhere. Takes seconds. Throws an Error where they cannot be started or fail.
[[nodiscard]] simulator::Hardware measure_here(int num_ranks, const config::Config& config, const std::string& keep);

}  // namespace sft::apps
