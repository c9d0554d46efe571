// SPDX-License-Identifier: Apache-2.0
#include "sft/data/micro_batch_limits.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "data/step_rows.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::data {

namespace {

/// Of the longest rows together.
MicroBatchLimits limits_of_longest(std::vector<std::int32_t> lengths, std::int64_t num_rows, std::int64_t max_length) {
  MicroBatchLimits limits = limits_of_full_rows(num_rows, max_length);
  const auto end = lengths.begin() + std::min(num_rows, std::ssize(lengths));
  std::ranges::partial_sort(lengths, end, std::greater{});
  // A row may come twice: at the end of an epoch and at the beginning of the next.
  limits.tokens = std::min(limits.tokens, 2 * std::accumulate(lengths.begin(), end, std::int64_t{0}));
  limits.document_tokens = lengths.front();
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
  if (num_steps > max_visits / plan.rows_per_step()) {
    return limits_of_longest(lengths, plan.rows_per_micro_batch, max_length);
  }
  StepRows rows(dataset.num_rows(), plan, plan.data_size > 1 ? lengths : std::vector<std::int32_t>{});
  std::set<std::int64_t> joined_lengths;
  for (std::int64_t step = plan.first_step; step < plan.last_step; ++step) {
    for (const std::vector<std::int64_t>& slot : rows.slots(step)) {
      std::int64_t num_tokens = 0;
      for (const std::int64_t row : slot) num_tokens += lengths[static_cast<std::size_t>(row)];
      joined_lengths.insert(sequence::joined_row_length(num_tokens, std::ssize(slot) * max_length, plan.sp_size));
    }
  }
  return {.tokens = *joined_lengths.rbegin(),
          .document_tokens = std::max(*std::ranges::max_element(lengths), 1),
          .num_lengths = std::ssize(joined_lengths)};
}

}  // namespace sft::data
