// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pure rank arithmetic of the mesh: no MPI, any world size.

#include <string>
#include <vector>

#include "sft/core/axis.hpp"

namespace sft::mesh {

/// A rank's place along each axis.
using Coordinates = AxisArray<int>;

/// The sizes of the axes. World ranks count through them, the last axis fastest: rank = ((dp_replicate * shard_size +
/// dp_shard) * sp_size + sp) * tp_size + tp, and so for any axes in the order of Axis.
class Layout {
 public:
  /// One rank.
  constexpr Layout() = default;
  /// Each size >= 1.
  constexpr explicit Layout(const AxisArray<int>& sizes) : sizes_(sizes) {}
  /// The named sizes, >= 1; 1 on all other axes.
  constexpr Layout(AxisArray<int>::Named sizes) : sizes_(1, sizes) {}

  /// The ranks along one axis.
  [[nodiscard]] constexpr int operator[](Axis axis) const { return sizes_[axis]; }
  [[nodiscard]] constexpr const AxisArray<int>& sizes() const { return sizes_; }
  /// All ranks.
  [[nodiscard]] constexpr int size() const { return size(every_axis); }
  [[nodiscard]] constexpr IndexRange<WorldRank> ranks() const { return IndexRange<WorldRank>(size()); }
  /// `rank` in [0, size()), coordinates within sizes(): not checked.
  [[nodiscard]] Coordinates coordinates(WorldRank rank) const;
  [[nodiscard]] WorldRank rank(const Coordinates& coordinates) const;
  /// How many ranks differ along `axes` alone.
  [[nodiscard]] constexpr int size(const AxisSet& axes) const { return num_ranks(sizes_, axes); }
  /// The number of the rank at `coordinates` among them; the last axis is the fastest.
  [[nodiscard]] int rank(const Coordinates& coordinates, const AxisSet& axes) const;
  /// The ranks that differ from `rank` along `axes` alone, in the order of those numbers.
  [[nodiscard]] std::vector<WorldRank> members(WorldRank rank, const AxisSet& axes) const;
  /// The axes that texts name: those that config::axis_keys always names, and those of more than one rank.
  [[nodiscard]] std::vector<Axis> named_axes() const;
  /// "2 x 2 x 2 x 2 (dp_replicate x dp_shard x sp x tp)"
  [[nodiscard]] std::string describe() const;
  /// The axes along which some neighbours are on different nodes. `node_of_rank` has size() entries.
  [[nodiscard]] AxisSet axes_between_nodes(const IndexedVector<WorldRank, int>& node_of_rank) const;

 private:
  AxisArray<int> sizes_{1, {}};
};

}  // namespace sft::mesh
