// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whose attention a plan of time counts with.

#include "sft/config/config.hpp"
#include "sft/device/rates.hpp"

namespace sft::plan {

/// `rates` with those of the attention that [device] attention names, where the machine has them, for the passes that
/// it does. Pure.
[[nodiscard]] device::Rates with_attention_of(device::Rates rates, const config::Config& config);

}  // namespace sft::plan
