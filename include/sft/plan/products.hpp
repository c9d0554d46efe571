// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the machine code of a rank's matrix products takes, by the code that trains, over nothing.

#include <cstddef>

#include "sft/config/valid_config.hpp"
#include "sft/data/micro_batch_limits.hpp"
#include "sft/mesh/place.hpp"
#include "sft/plan/machine.hpp"

namespace sft::plan {

/// Host memory of the machine code of the products of a run within `limits`, on rank place.rank(): ops::products_bytes
/// of a step on micro-batches that are as large as they can be. 0 on GPUs and where there is nothing to train on. Pure
/// but for the instruction set of this processor.
[[nodiscard]] std::size_t plan_products(const config::ValidConfig& config, const data::MicroBatchLimits& limits,
                                        const mesh::Place& place, const Machine& machine);

}  // namespace sft::plan
