// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configuration of a run, from its file and its command line.

#include "options.hpp"
#include "sft/comm/group.hpp"
#include "sft/config/valid_config.hpp"

namespace sft::apps {

/// The configuration of the command line, the same on all ranks, for the ranks that there are or that are planned,
/// without a run whose end is known to fail. Rank 0 reads the file, with its environment. A configuration Error on all
/// ranks where it cannot be used, or where several of them were started to plan for others. Collective.
[[nodiscard]] config::ValidConfig read_config(const SftOptions& command, const comm::Group& world);

/// The configuration to print, without MPI. One process prints any configuration, and the size of an axis that is auto
/// stays so; of several, its mesh has to be theirs.
[[nodiscard]] config::Config printed_config(const SftOptions& command);

}  // namespace sft::apps
