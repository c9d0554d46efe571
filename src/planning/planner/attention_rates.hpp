// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whose attention a plan of time counts with.

#include "sft/config/config.hpp"
#include "sft/simulator/rates.hpp"

namespace sft::planner {

/// `rates` with those of the attention that [device] attention names, where the machine has them, for the passes that
/// it does. Pure.
[[nodiscard]] simulator::Rates with_attention_of(simulator::Rates rates, const config::Config& config);

}  // namespace sft::planner
