// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "sft/config/valid_config.hpp"
#include "sft/data/loader.hpp"
#include "sft/mesh/place.hpp"
#include "sft/plan/datasets.hpp"

namespace sft::plan {

/// What a rank reads of num_rows rows in steps [first_step, last_step). Pure.
[[nodiscard]] data::LoaderPlan loader_plan(const config::ValidConfig& config, const mesh::Place& place,
                                           std::int64_t num_rows, std::int64_t first_step, std::int64_t last_step);

/// What a rank reads in one evaluation: every row once, in file order, in micro-batches of training's size. Where the
/// rows do not fill the last ones, ranks get empty ones, so that all take part in as many. Pure but for the
/// data sets' facts.
[[nodiscard]] data::LoaderPlan eval_loader_plan(const config::ValidConfig& config, const mesh::Place& place,
                                                const Datasets& datasets);

/// Host memory of a rank's batches: of training and, where there is one, of an evaluation.
[[nodiscard]] std::size_t batches_bytes(const config::ValidConfig& config, const mesh::Place& place,
                                        const Datasets& datasets);

}  // namespace sft::plan
