#include "sft/mesh/layout.hpp"

#include "sft/core/error.hpp"

namespace sft::mesh {

Coordinates Layout::coordinates(int rank) const {
  const std::array<int, 4> sizes_of_axes = sizes();
  Coordinates result{};
  for (std::size_t axis = result.size(); axis-- > 0;) {
    result[axis] = rank % sizes_of_axes[axis];
    rank /= sizes_of_axes[axis];
  }
  return result;
}

int Layout::rank(const Coordinates& coordinates) const {
  const std::array<int, 4> sizes_of_axes = sizes();
  int result = 0;
  for (std::size_t axis = 0; axis < coordinates.size(); ++axis)
    result = result * sizes_of_axes[axis] + coordinates[axis];
  return result;
}

std::vector<int> Layout::members(int rank, std::array<bool, 4> kept_axes) const {
  const Coordinates own = coordinates(rank);
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other) {
    const Coordinates theirs = coordinates(other);
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

HeadSplit split_heads(int num_heads, int num_kv_heads, int tp_size, int tp_rank) {
  ensure(num_heads % tp_size == 0, "tp_size divides the query heads");
  const int q_heads = num_heads / tp_size;
  if (num_kv_heads >= tp_size) {
    ensure(num_kv_heads % tp_size == 0, "tp_size divides the key/value heads");
    const int kv_heads = num_kv_heads / tp_size;
    return {q_heads, kv_heads, tp_rank * kv_heads, 1};
  }
  ensure(tp_size % num_kv_heads == 0, "the key/value heads divide tp_size");
  const int replicas = tp_size / num_kv_heads;
  return {q_heads, 1, tp_rank / replicas, replicas};
}

}  // namespace sft::mesh
