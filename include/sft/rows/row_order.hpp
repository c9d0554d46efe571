// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which row comes when: a function of the seed alone, never of the mesh. Pure.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sft::rows {

/// How epochs follow one another, and in which order a shuffled one has its rows.
enum class OrderKind {
  /// What TRL has on one process: epoch e has the order of torch's RandomSampler seeded with seed + e, and its last
  /// step
  /// has the rows that are left.
  trl,
  /// Every step has a whole batch: the rows of the next epoch fill up the last one of an epoch. The order is sft's own.
  endless,
};

/// From where on the steps of a run have the batch that they have now, when those before had others.
struct StepOrigin {
  std::int64_t step = 0, rows = 0;   ///< steps that were done, and rows that they trained on: a position in the order
  std::int64_t batch_rows_then = 0;  ///< of the last of them

  bool operator==(const StepOrigin&) const = default;
};

/// Which part of the row order every step has: positions [begin(s), begin(s + 1)). Behind its origin a step has the
/// rows that come next, in TRL's order no further than the end of the epoch: so every row of an epoch is trained on
/// once, whatever batches its steps had.
struct StepPositions {
  OrderKind kind = OrderKind::trl;
  std::int64_t num_rows = 1, batch_rows = 1;  ///< of the data set; of a step that is not shorter
  StepOrigin origin = {};

  /// Rows that the steps before `step` train on. Of steps before the origin only its last one is known: with earlier
  /// ones as if they had had its batch.
  [[nodiscard]] std::int64_t begin(std::int64_t step) const;
  /// The first step, not before the origin, before which `rows` rows are trained on.
  [[nodiscard]] std::int64_t step_after(std::int64_t rows) const;
  /// Steps until every row of an epoch was there; of endless epochs those that lie in it, the last in part.
  [[nodiscard]] std::int64_t steps_per_epoch() const { return (num_rows + batch_rows - 1) / batch_rows; }
  /// Rows of the last step of an epoch where it has fewer than others; 0 where all have batch_rows.
  [[nodiscard]] std::int64_t rows_of_short_step() const { return kind == OrderKind::trl ? num_rows % batch_rows : 0; }
};

/// The endless sequence of epochs: position p is row permutation_{p / num_rows}[p % num_rows]; without `shuffle` it is
/// row p % num_rows.
class RowOrder {
 public:
  /// Most rows that have TRL's order without being asked to: 64 MiB on each rank.
  static constexpr std::int64_t max_rows_of_trl = std::int64_t{1} << 24;
  /// More rows cannot be brought into TRL's order.
  static constexpr std::int64_t most_rows_of_trl = 0xffffffff / 20 - 1;
  /// Up to so many rows the endless order is a list, uniformly random; of more rows it is computed for each position,
  /// pseudorandom, and takes no memory.
  static constexpr std::int64_t max_listed_rows = std::int64_t{1} << 20;

  RowOrder(OrderKind kind, std::int64_t num_rows, bool shuffle, std::uint64_t seed);
  [[nodiscard]] std::int64_t row_at(std::int64_t position);

  /// Memory of such an order.
  [[nodiscard]] static std::size_t memory_bytes(OrderKind kind, std::int64_t num_rows, bool shuffle);

 private:
  OrderKind kind_;
  std::int64_t num_rows_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::uint32_t> permutation_;  ///< of epoch_, where it is a list
};

}  // namespace sft::rows
