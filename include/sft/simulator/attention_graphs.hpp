// SPDX-License-Identifier: Apache-2.0
#pragma once
// The graphs of cuDNN's attention that a run asks for.

#include <cstdint>
#include <vector>

#include "sft/config/valid_config.hpp"
#include "sft/ops/attention_graphs.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"

namespace sft::simulator {

/// The graphs that the ranks of a run ask for, each once: for the rows that it looks at when it begins behind
/// `first_step` steps, by the code that trains and evaluates, over nothing. `config` is settled as the run settles it.
/// Reads the lengths of these rows. Throws a configuration Error where cuDNN cannot be used.
[[nodiscard]] std::vector<ops::AttentionGraph> list_attention(const config::ValidConfig& config,
                                                              const rank::Datasets& datasets,
                                                              const rank::Machine& machine, std::int64_t first_step);

}  // namespace sft::simulator
