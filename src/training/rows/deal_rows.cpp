// SPDX-License-Identifier: Apache-2.0
#include "rows/step_rows.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <queue>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::rows {

namespace {

using Slots = std::vector<std::vector<std::int64_t>>;

std::int64_t tokens_of(const std::vector<std::int64_t>& slot, const std::vector<std::int32_t>& lengths) {
  return std::accumulate(slot.begin(), slot.end(), std::int64_t{0},
                         [&](std::int64_t sum, std::int64_t row) { return sum + lengths[row]; });
}

/// Tokens that a step takes the time of: the fullest slot of each micro-batch.
std::int64_t cost_of(const Slots& slots, const std::vector<std::int32_t>& lengths, int data_size) {
  std::int64_t cost = 0;
  for (auto first = slots.begin(); first != slots.end(); first += data_size) {
    std::int64_t fullest = 0;
    for (auto slot = first; slot != first + data_size; ++slot) fullest = std::max(fullest, tokens_of(*slot, lengths));
    cost += fullest;
  }
  return cost;
}

Slots in_order(std::int64_t num_rows, std::size_t num_slots, std::int64_t rows_per_slot) {
  Slots slots(num_slots);
  for (std::int64_t row = 0; row < num_rows; ++row) slots[row / rows_per_slot].push_back(row);
  return slots;
}

Slots longest_first(const std::vector<std::int32_t>& lengths, std::size_t num_slots, std::int64_t rows_per_slot) {
  std::vector<std::int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto length = [&](std::int64_t row) { return lengths[row]; };
  std::ranges::stable_sort(order, std::greater{}, length);

  using TokensAndSlot = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<TokensAndSlot, std::vector<TokensAndSlot>, std::greater<>> emptiest;
  for (std::size_t slot = 0; slot < num_slots; ++slot) emptiest.emplace(0, slot);
  Slots slots(num_slots);
  for (const std::int64_t row : order) {
    const auto [tokens, slot] = emptiest.top();
    emptiest.pop();
    slots[slot].push_back(row);
    if (std::ssize(slots[slot]) < rows_per_slot) emptiest.emplace(tokens + length(row), slot);
  }
  for (std::vector<std::int64_t>& slot : slots) std::ranges::sort(slot);
  std::ranges::stable_sort(slots, std::greater{}, [&](const auto& slot) { return tokens_of(slot, lengths); });
  return slots;
}

}  // namespace

std::vector<std::vector<std::int64_t>> deal_rows(const std::vector<std::int32_t>& lengths, const StepSlots& shape) {
  const std::size_t num_slots = shape.micro_batches * shape.data_size;
  const std::int64_t num_rows = std::ssize(lengths);
  SFT_ENSURE(num_rows <= shape.micro_batches * shape.data_size * shape.rows_per_slot, "a step has room for its rows");
  Slots plain = in_order(num_rows, num_slots, shape.rows_per_slot);
  if (shape.data_size == 1) return plain;
  Slots dealt = longest_first(lengths, num_slots, shape.rows_per_slot);
  constexpr std::int64_t slack = 50;  // 1/50 = 2 %
  const std::int64_t best = cost_of(dealt, lengths, shape.data_size);
  return cost_of(plain, lengths, shape.data_size) <= best + best / slack ? plain : dealt;
}

}  // namespace sft::rows
