// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machine that a run is on, as plans of memory see it.

#include <cstddef>
#include <optional>

#include "run_context.hpp"
#include "sft/device/device.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"

namespace sft::apps {

/// For plans of memory: called once all that CUDA's libraries take at the start is taken, and before the arenas are.
/// `own`: of this rank's GPU; none on CPUs. Local.
[[nodiscard]] rank::Machine machine_of(const RunContext& on, const std::optional<device::OwnMemory>& own);

/// Bytes that this process takes apart from what the ledger lists.
[[nodiscard]] std::size_t own_bytes(const rank::Datasets& datasets);

}  // namespace sft::apps
