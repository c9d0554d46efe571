// SPDX-License-Identifier: Apache-2.0
#pragma once
// What follows from the sizes of the mesh and a rank number alone. Pure: works for any rank of any mesh, without MPI.

#include "sft/config/valid_config.hpp"
#include "sft/mesh/layout.hpp"

namespace sft::mesh {

/// Where a rank stands.
class Place {
 public:
  /// The only rank of a mesh of one.
  Place() = default;
  /// Rank `rank` of `layout`. Throws std::logic_error when there is no such rank.
  Place(const Layout& layout, WorldRank rank);
  /// Rank `rank` of the mesh that a configuration describes.
  Place(const config::ValidConfig& config, WorldRank rank);

  /// Another rank of the same mesh.
  [[nodiscard]] Place peer(WorldRank rank) const { return {layout_, rank}; }

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] WorldRank rank() const { return layout_.rank(coordinates_); }
  /// The ranks along one axis, and this one's number among them.
  [[nodiscard]] int size(Axis axis) const { return layout_[axis]; }
  [[nodiscard]] int rank(Axis axis) const { return coordinates_[axis]; }
  [[nodiscard]] SpRank sp_rank() const { return SpRank::from(rank(Axis::sp)); }
  [[nodiscard]] TpRank tp_rank() const { return TpRank::from(rank(Axis::tp)); }
  /// The ranks that differ along these axes alone, and this one's number among them.
  [[nodiscard]] int size(const AxisSet& axes) const { return layout_.size(axes); }
  [[nodiscard]] int rank(const AxisSet& axes) const { return layout_.rank(coordinates_, axes); }

  /// data: the ranks that read different rows.
  [[nodiscard]] int data_size() const { return size(data_axes); }
  [[nodiscard]] int data_rank() const { return rank(data_axes); }

  /// Whether this rank speaks for its rows: ranks that differ in other axes alone read the same ones.
  [[nodiscard]] bool owns_rows() const { return rank(row_axes) == 0; }
  /// Whether it speaks for its tokens: ranks that differ in tp alone have the same ones.
  [[nodiscard]] bool owns_tokens() const { return rank(Axis::tp) == 0; }
  /// Whether it speaks for its shard of what is sharded over `shard_axes`, as the first of the ranks that hold the same
  /// one; those along `slice_axes` hold other slices. ShardMap (parallel) adds what tp ranks hold in common.
  [[nodiscard]] bool owns_shard(const AxisSet& shard_axes, const AxisSet& slice_axes = {Axis::tp}) const {
    return rank(every_axis.without(slice_axes).without(shard_axes)) == 0;
  }

 private:
  Layout layout_;
  Coordinates coordinates_;
};

/// The sizes that a ValidConfig names.
[[nodiscard]] Layout layout_of(const config::Parallel& parallel);

}  // namespace sft::mesh
