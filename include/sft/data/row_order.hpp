#pragma once
// Which row comes when: a function of the seed alone, never of the mesh. Pure.

#include <cstdint>
#include <vector>

namespace sft::data {

/// The endless sequence of epochs: position p is row permutation_{p / num_rows}[p % num_rows]. Step s of effective
/// batch B trains on positions [s * B, (s + 1) * B).
class RowOrder {
 public:
  RowOrder(std::int64_t num_rows, bool shuffle, std::uint64_t seed);
  [[nodiscard]] std::int64_t row_at(std::int64_t position);

 private:
  std::int64_t num_rows_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> permutation_;
};

}  // namespace sft::data
