// SPDX-License-Identifier: Apache-2.0
#pragma once
// Documents that are to come, and the graphs of cuDNN's attention that a run of them asks for.

#include <cstdint>
#include <vector>

#include "sft/config/valid_config.hpp"
#include "sft/ops/attention_graphs.hpp"
#include "sft/ops/backend.hpp"
#include "sft/plan/datasets.hpp"
#include "sft/plan/machine.hpp"
#include "sft/rows/coming_documents.hpp"
#include "sft/rows/loader.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::plan {

/// Rows of each data rank whose documents a run looks at before it begins, and as many to evaluate on.
inline constexpr std::int64_t rows_looked_at = 4096;

/// How the rank that `plan` is for attends within the documents of a micro-batch. Pure.
[[nodiscard]] sequence::AttentionSchedules schedules_of(const rows::LoaderPlan& plan, rows::ComingMicroBatch batch);
/// Tells the backend that they will come.
void expect_attention(ops::Backend& backend, const sequence::AttentionSchedules& schedules);

/// The graphs that the ranks of a run ask for, each once: for the rows that it looks at when it begins behind
/// `first_step` steps, by the code that trains and evaluates, over nothing. `config` is settled as the run settles it.
/// Reads the lengths of these rows. Throws a configuration Error where cuDNN cannot be used.
[[nodiscard]] std::vector<ops::AttentionGraph> list_attention(const config::ValidConfig& config,
                                                              const Datasets& datasets, const Machine& machine,
                                                              std::int64_t first_step);

}  // namespace sft::plan
