// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/row_order.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"
#include "sft/rows/permutation.hpp"
#include "sft/rows/reference_random.hpp"

namespace sft::rows {

static_assert(RowOrder::most_rows_of_trl < max_torch_permutation);

namespace {

bool is_listed(OrderKind kind, std::int64_t num_rows) {
  return kind == OrderKind::trl || num_rows <= RowOrder::max_listed_rows;
}

}  // namespace

namespace {

std::int64_t divide_up(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

}  // namespace

std::int64_t StepPositions::begin(std::int64_t step) const {
  if (step < origin.step) {
    return std::max<std::int64_t>(0, origin.rows - (origin.step - step) * origin.batch_rows_then);
  }
  const std::int64_t steps = step - origin.step;
  if (kind == OrderKind::endless) return origin.rows + steps * batch_rows;
  const std::int64_t epoch_end = (origin.rows / num_rows + 1) * num_rows;
  const std::int64_t steps_to_end = divide_up(epoch_end - origin.rows, batch_rows), later = steps - steps_to_end;
  if (later < 0) return origin.rows + steps * batch_rows;
  return epoch_end + later / steps_per_epoch() * num_rows + later % steps_per_epoch() * batch_rows;
}

std::int64_t StepPositions::step_after(std::int64_t rows) const {
  if (rows <= origin.rows) return origin.step;
  const std::int64_t epoch_end = (origin.rows / num_rows + 1) * num_rows;
  if (kind == OrderKind::endless || rows <= epoch_end) return origin.step + divide_up(rows - origin.rows, batch_rows);
  const std::int64_t later = rows - epoch_end;
  return origin.step + divide_up(epoch_end - origin.rows, batch_rows) + later / num_rows * steps_per_epoch() +
         divide_up(later % num_rows, batch_rows);
}

RowOrder::RowOrder(OrderKind kind, std::int64_t num_rows, bool shuffle, std::uint64_t seed)
    : kind_(kind), num_rows_(num_rows), shuffle_(shuffle), seed_(seed) {
  SFT_ENSURE(num_rows > 0, "a row order has rows");
}

std::int64_t RowOrder::row_at(std::int64_t position) {
  SFT_ENSURE(position >= 0, "a position in the row order is not negative");
  const std::int64_t epoch = position / num_rows_;
  const std::int64_t index = position % num_rows_;
  if (!shuffle_) return index;
  const auto stream = static_cast<std::uint64_t>(epoch);
  if (!is_listed(kind_, num_rows_)) return KeyedPermutation(num_rows_, seed_, stream)(index);
  if (epoch != epoch_) {
    permutation_ = {};  // never two of them in memory
    permutation_ = kind_ == OrderKind::trl ? torch_permutation(num_rows_, seed_ + stream)
                                           : random_permutation<std::uint32_t>(num_rows_, seed_, stream);
    epoch_ = epoch;
  }
  return permutation_[index];
}

std::size_t RowOrder::memory_bytes(OrderKind kind, std::int64_t num_rows, bool shuffle) {
  if (!shuffle || !is_listed(kind, num_rows)) return 0;
  return num_rows * sizeof(std::uint32_t);
}

}  // namespace sft::rows
