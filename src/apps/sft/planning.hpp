// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions of sft to the planner and the simulator. A build with SFT_PLANNER=OFF has no_planner.cpp in the place of
// the sources that define these.

#include <optional>
#include <string>

#include "options.hpp"
#include "run_context.hpp"
#include "settle_run.hpp"
#include "sft/check/check_machine.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/rank/datasets.hpp"

namespace sft::apps {

/// Throws a configuration Error where the command line asks for what this build cannot answer.
void require_planner(const SftOptions& command);

/// --dry-run: prints what the run of `given` would be on the machine that the command line names. One rank.
void print_dry_run(const config::ValidConfig& given, const SftOptions& command);

/// --compile-attention: compiles graphs of cuDNN's attention that the run of `given` will ask for on the machine that
/// the command line names, by all cores, into the folder where that run looks, and prints a table of it. Throws a
/// configuration Error where this cannot be done. One rank.
void compile_attention(const config::ValidConfig& given, const SftOptions& command);

/// --write_machine: measures the machine and writes it to a file that --machine reads. `start_s`: seconds that the
/// start of this process took. Collective over the world.
void write_machine(const check::CheckedMachine& checked, const std::string& file, double start_s);

/// --machine: enters the time of a step of `run` on nodes like those of the run, at the rates of the machine of that
/// name. `own`: of this rank's GPU; none on CPUs. Throws a configuration Error where the machine computes on something
/// else. On rank 0.
void plan_time(const RunContext& on, const rank::Datasets& datasets, const std::string& machine_name,
               const std::optional<device::OwnMemory>& own, SettledRun& run);

/// The nearest way to train on this machine that fits, in words; empty: none is known. On rank 0.
[[nodiscard]] std::string nearest_fitting(const RunContext& on, const config::ValidConfig& config,
                                          const rank::Datasets& datasets, const std::string& machine_name,
                                          const std::optional<device::OwnMemory>& own);

}  // namespace sft::apps
