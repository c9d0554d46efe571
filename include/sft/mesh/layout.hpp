// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pure rank arithmetic of the mesh: no MPI, any world size.

#include <array>
#include <string>
#include <vector>

namespace sft::mesh {

/// The names of the axes, the slowest first.
inline constexpr std::array<const char*, 4> axis_names = {"dp_replicate", "dp_shard", "sp", "tp"};

/// A rank's place along each axis.
struct Coordinates {
  int dp_replicate = 0, dp_shard = 0, sp = 0, tp = 0;

  [[nodiscard]] bool operator==(const Coordinates&) const = default;
};

/// Sizes of the axes, each >= 1: rank = ((dp_replicate * shard_size + dp_shard) * sp_size + sp) * tp_size + tp.
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
  /// For each axis, whether some neighbours along it are on different nodes. `node_of_rank` has size() entries.
  [[nodiscard]] std::array<bool, 4> axes_between_nodes(const std::vector<int>& node_of_rank) const;
};

}  // namespace sft::mesh
