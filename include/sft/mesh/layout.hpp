#pragma once
// Pure rank arithmetic of the mesh: no MPI, any world size.

#include <array>
#include <string>
#include <vector>

namespace sft::mesh {

/// The four axes, slowest first: rank = ((replicate * shard_size + shard) * sp_size + sp) * tp_size + tp.
enum class Axis { dp_replicate = 0, dp_shard = 1, sp = 2, tp = 3 };

using Coordinates = std::array<int, 4>;  ///< indexed by Axis

/// Sizes of the axes, each >= 1.
struct Layout {
  int dp_replicate = 1, dp_shard = 1, sp = 1, tp = 1;

  [[nodiscard]] int size() const { return dp_replicate * dp_shard * sp * tp; }
  [[nodiscard]] std::array<int, 4> sizes() const { return {dp_replicate, dp_shard, sp, tp}; }
  /// `rank` in [0, size()), coordinates within sizes(): not checked.
  [[nodiscard]] Coordinates coordinates(int rank) const;
  [[nodiscard]] int rank(const Coordinates& coordinates) const;
  /// World ranks that differ from `rank` only along the kept axes, in group-rank order.
  [[nodiscard]] std::vector<int> members(int rank, std::array<bool, 4> kept_axes) const;
  /// "2 x 2 x 2 x 2 (dp_replicate x dp_shard x sp x tp)"
  [[nodiscard]] std::string describe() const;
};

/// How attention heads lie over tp. With fewer key/value heads than ranks, tp_size / num_kv_heads neighbouring ranks
/// hold the same one.
struct HeadSplit {
  int q_heads;      ///< local query heads
  int kv_heads;     ///< local key/value heads
  int kv_begin;     ///< global index of the first
  int kv_replicas;  ///< ranks that hold each key/value head
};
/// The heads of rank `tp_rank`. Throws std::logic_error unless tp_size divides num_heads, and of num_kv_heads and
/// tp_size one divides the other.
[[nodiscard]] HeadSplit split_heads(int num_heads, int num_kv_heads, int tp_size, int tp_rank);

}  // namespace sft::mesh
