// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which row comes when: a function of the seed alone, never of the mesh. Pure.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sft::data {

/// The endless sequence of epochs: position p is row permutation_{p / num_rows}[p % num_rows]. Step s of effective
/// batch B trains on positions [s * B, (s + 1) * B). Up to max_listed_rows rows the permutation is a list, uniformly
/// random; of more rows it is computed for each position, pseudorandom, and takes no memory.
class RowOrder {
 public:
  static constexpr std::int64_t max_listed_rows = std::int64_t{1} << 20;

  RowOrder(std::int64_t num_rows, bool shuffle, std::uint64_t seed);
  [[nodiscard]] std::int64_t row_at(std::int64_t position);

  /// Memory of such an order.
  [[nodiscard]] static std::size_t memory_bytes(std::int64_t num_rows, bool shuffle);

 private:
  std::int64_t num_rows_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> permutation_;  ///< of epoch_, where it is a list
};

}  // namespace sft::data
