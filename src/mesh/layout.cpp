// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/layout.hpp"

namespace sft::mesh {

namespace {

std::array<int, 4> as_array(const Coordinates& c) { return {c.dp_replicate, c.dp_shard, c.sp, c.tp}; }

}  // namespace

Coordinates Layout::coordinates(int rank) const {
  const std::array<int, 4> sizes_of_axes = sizes();
  std::array<int, 4> result{};
  for (std::size_t axis = result.size(); axis-- > 0;) {
    result[axis] = rank % sizes_of_axes[axis];
    rank /= sizes_of_axes[axis];
  }
  return {result[0], result[1], result[2], result[3]};
}

int Layout::rank(const Coordinates& coordinates) const {
  return ((coordinates.dp_replicate * dp_shard + coordinates.dp_shard) * sp + coordinates.sp) * tp + coordinates.tp;
}

std::vector<int> Layout::members(int rank, std::array<bool, 4> kept_axes) const {
  const std::array<int, 4> own = as_array(coordinates(rank));
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other) {
    const std::array<int, 4> theirs = as_array(coordinates(other));
    bool is_member = true;
    for (std::size_t axis = 0; axis < own.size(); ++axis) is_member &= kept_axes[axis] || theirs[axis] == own[axis];
    if (is_member) ranks.push_back(other);
  }
  return ranks;
}

std::string Layout::describe() const {
  std::string text;
  for (const int axis_size : sizes()) text += (text.empty() ? "" : " x ") + std::to_string(axis_size);
  return text + " (dp_replicate x dp_shard x sp x tp)";
}

std::array<bool, 4> Layout::axes_between_nodes(const std::vector<int>& node_of_rank) const {
  std::array<bool, 4> result{};
  const std::array<int, 4> sizes_of_axes = sizes();
  int stride = 1;
  for (std::size_t axis = result.size(); axis-- > 0;) {
    for (int rank = 0; rank + stride < size(); ++rank) {
      const bool has_neighbour = rank / stride % sizes_of_axes[axis] + 1 < sizes_of_axes[axis];
      const auto here = static_cast<std::size_t>(rank), there = static_cast<std::size_t>(rank + stride);
      if (has_neighbour && node_of_rank[here] != node_of_rank[there]) result[axis] = true;
    }
    stride *= sizes_of_axes[axis];
  }
  return result;
}

}  // namespace sft::mesh
