// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/micro_batch_limits.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "rows/step_rows.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::rows {

namespace {

/// Of the longest rows that can meet in one micro-batch.
MicroBatchLimits limits_of_longest(std::vector<std::int32_t> lengths, const LoaderPlan& plan, std::int64_t max_length) {
  MicroBatchLimits limits = limits_of_full_rows(plan.rows_per_micro_batch, max_length);
  // A step is a run of the row order, whose epochs have every row once: so often can it have one row.
  const std::int64_t times = plan.order == OrderKind::trl ? 1 : plan.rows_per_step() / std::ssize(lengths) + 2;
  std::int64_t rows_left = plan.rows_per_micro_batch, num_tokens = 0;
  std::ranges::sort(lengths, std::greater{});
  for (auto length = lengths.begin(); length != lengths.end() && rows_left > 0; ++length) {
    const std::int64_t count = std::min(times, rows_left);
    num_tokens += count * *length;
    rows_left -= count;
  }
  limits.tokens = std::min(limits.tokens,
                           sequence::joined_row_length(num_tokens, limits.tokens, plan.sp_size, plan.local_multiple));
  limits.document_tokens = std::max(lengths.front(), 1);
  return limits;
}

}  // namespace

MicroBatchLimits& MicroBatchLimits::operator|=(const MicroBatchLimits& other) {
  tokens = std::max(tokens, other.tokens);
  document_tokens = std::max(document_tokens, other.document_tokens);
  num_lengths = std::max(num_lengths, other.num_lengths);
  return *this;
}

MicroBatchLimits limits_of_full_rows(std::int64_t num_rows, std::int64_t max_length) {
  return {.tokens = num_rows * max_length, .document_tokens = max_length, .num_lengths = 1};
}

MicroBatchLimits measure_limits(const PackedDataset& dataset, const LoaderPlan& plan) {
  constexpr std::int64_t max_visits = std::int64_t{1} << 23;
  const std::int64_t max_length = dataset.max_length(), num_steps = plan.last_step - plan.first_step;
  if (num_steps <= 0) return {};
  if (dataset.num_rows() > max_rows_dealt) return limits_of_full_rows(plan.rows_per_micro_batch, max_length);
  const std::vector<std::int32_t> lengths = dataset.row_lengths();
  if (num_steps > max_visits / plan.rows_per_step() || plan.origin != StepOrigin{}) {
    return limits_of_longest(lengths, plan, max_length);
  }
  StepRows rows(dataset.num_rows(), plan, plan.data_size > 1 ? std::span(lengths) : std::span<const std::int32_t>());
  std::set<std::int64_t> joined_lengths;
  for (std::int64_t step = plan.first_step; step < plan.last_step; ++step) {
    for (const std::vector<std::int64_t>& slot : rows.slots(step)) {
      std::int64_t num_tokens = 0;
      for (const std::int64_t row : slot) num_tokens += lengths[row];
      joined_lengths.insert(
          sequence::joined_row_length(num_tokens, std::ssize(slot) * max_length, plan.sp_size, plan.local_multiple));
    }
  }
  return {.tokens = *joined_lengths.rbegin(),
          .document_tokens = std::max(*std::ranges::max_element(lengths), 1),
          .num_lengths = std::ssize(joined_lengths)};
}

}  // namespace sft::rows
