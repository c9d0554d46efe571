// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sft/config/config.hpp"
#include "sft/data/loader.hpp"
#include "sft/mesh/place.hpp"

namespace sft::train {

/// What a rank reads in steps [first_step, last_step) of a validated configuration. Pure.
[[nodiscard]] data::LoaderPlan loader_plan(const config::Config& config, const mesh::Place& place,
                                           std::int64_t first_step, std::int64_t last_step);

}  // namespace sft::train
