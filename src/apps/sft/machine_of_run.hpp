// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machine that a run is on, as plans of memory and of time see it.

#include <optional>
#include <string>

#include "run_context.hpp"
#include "sft/device/device.hpp"
#include "sft/rank/machine.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::apps {

/// For plans of memory: called once all that CUDA's libraries take at the start is taken, and before the arenas are.
/// `own`: of this rank's GPU; none on CPUs. Local.
[[nodiscard]] rank::Machine machine_of(const RunContext& on, const std::optional<device::OwnMemory>& own);

/// For plans of time: nodes like those of the run, with `name` at the rates of that machine, else at those of the one
/// that is nearest by kind. Throws a configuration Error where `name` computes on something else. On rank 0.
[[nodiscard]] simulator::Hardware hardware_of(const RunContext& on, const std::string& name,
                                              const std::optional<device::OwnMemory>& own);

}  // namespace sft::apps
