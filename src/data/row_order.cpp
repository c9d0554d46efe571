// SPDX-License-Identifier: Apache-2.0
#include "sft/data/row_order.hpp"

#include "data/permutation.hpp"
#include "sft/core/error.hpp"

namespace sft::data {

RowOrder::RowOrder(std::int64_t num_rows, bool shuffle, std::uint64_t seed)
    : num_rows_(num_rows), shuffle_(shuffle), seed_(seed) {
  ensure(num_rows > 0, "a row order has rows");
}

std::int64_t RowOrder::row_at(std::int64_t position) {
  ensure(position >= 0, "a position in the row order is not negative");
  const std::int64_t epoch = position / num_rows_;
  const std::int64_t index = position % num_rows_;
  if (!shuffle_) return index;
  const auto stream = static_cast<std::uint64_t>(epoch);
  if (num_rows_ > max_listed_rows) return KeyedPermutation(num_rows_, seed_, stream)(index);
  if (epoch != epoch_) {
    permutation_ = {};  // never two of them in memory
    permutation_ = random_permutation(num_rows_, seed_, stream);
    epoch_ = epoch;
  }
  return permutation_[static_cast<std::size_t>(index)];
}

std::size_t RowOrder::memory_bytes(std::int64_t num_rows, bool shuffle) {
  if (!shuffle || num_rows > max_listed_rows) return 0;
  return static_cast<std::size_t>(num_rows) * sizeof(std::int64_t);
}

}  // namespace sft::data
