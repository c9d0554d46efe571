// SPDX-License-Identifier: Apache-2.0
#pragma once
// The attention of documents that are to come, which a backend is told of before.

#include <cstdint>

#include "sft/ops/backend.hpp"
#include "sft/rows/coming_documents.hpp"
#include "sft/rows/loader.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::rank {

/// Rows of each data rank whose documents a run looks at before it begins, and as many to evaluate on.
inline constexpr std::int64_t rows_looked_at = 4096;

/// The attention of the rank that `plan` is for, within the documents of a micro-batch. Pure.
[[nodiscard]] sequence::AttentionSchedules schedules_of(const rows::LoaderPlan& plan, rows::ComingMicroBatch batch);
/// Tells the backend that they will come.
void expect_attention(ops::Backend& backend, const sequence::AttentionSchedules& schedules);

}  // namespace sft::rank
