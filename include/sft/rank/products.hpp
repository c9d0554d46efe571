// SPDX-License-Identifier: Apache-2.0
#pragma once
// The matrix products of a rank, and what their machine code takes, by the code that trains, over nothing.

#include <cstddef>

#include "sft/config/valid_config.hpp"
#include "sft/mesh/place.hpp"
#include "sft/ops/listed_products.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rows/micro_batch_limits.hpp"

namespace sft::rank {

/// Host memory of the machine code of the products of a run by `plan`: ops::products_bytes of a step on micro-batches
/// that are as large as they can be. 0 on GPUs and where there is nothing to train on. `plan` is laid out over nothing
/// behind it. Pure but for the instruction set of this processor.
[[nodiscard]] std::size_t plan_products(const config::ValidConfig& config, RankPlan& plan);
/// Host memory of that code on the rank at `place`, which trains on micro-batches within `limits`.
[[nodiscard]] std::size_t plan_products(const config::ValidConfig& config, const rows::MicroBatchLimits& limits,
                                        const mesh::Place& place, const Machine& machine);

/// The products of a step on micro-batches that are as large as they can be, each kind once, over addresses that must
/// not be used. Those of experts and of an optimizer are not among them. `plan` is laid out over nothing behind it.
/// Pure.
[[nodiscard]] ops::ListedProducts list_products(const config::ValidConfig& config, RankPlan& plan);

}  // namespace sft::rank
