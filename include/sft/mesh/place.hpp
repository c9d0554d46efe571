// SPDX-License-Identifier: Apache-2.0
#pragma once
// What follows from the sizes of the mesh and a rank number alone. Pure: works for any rank of any mesh, without MPI.

#include "sft/config/valid_config.hpp"
#include "sft/mesh/layout.hpp"

namespace sft::mesh {

/// How the ranks of dp_shard x sp share parameters.
struct Sharing {
  bool is_sharded = true;  ///< false: each of them holds a copy (ZeRO stage 0)
  /// Neighbours that together keep a unit whole between its forward and its backward pass, as FSDP2's
  /// reshard_after_forward = N; a divisor of dp_shard x sp. 0: all of them.
  int reshard_size = 0;
};

/// Where a rank stands. Each group is described by its size and this rank's number in it.
class Place {
 public:
  /// The only rank of a mesh of one.
  Place() = default;
  /// Rank `rank` of `layout`. Throws std::logic_error when there is no such rank, or when reshard_size does not divide.
  Place(const Layout& layout, int rank, const Sharing& sharing = {});
  /// Rank `rank` of the mesh that a configuration describes.
  Place(const config::ValidConfig& config, int rank);

  /// Another rank of the same mesh.
  [[nodiscard]] Place peer(int rank) const { return {layout_, rank, sharing_}; }
  /// This rank where each holds a copy of all parameters.
  [[nodiscard]] Place with_copies() const;

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const Coordinates& coordinates() const { return coordinates_; }
  [[nodiscard]] int rank() const { return layout_.rank(coordinates_); }
  /// The ranks along one axis, and this one's number among them.
  [[nodiscard]] int size(Axis axis) const { return layout_[axis]; }
  [[nodiscard]] int rank(Axis axis) const { return coordinates_[axis]; }
  /// The ranks that differ along these axes alone, and this one's number among them.
  [[nodiscard]] int size(const AxisSet& axes) const { return layout_.size(axes); }
  [[nodiscard]] int rank(const AxisSet& axes) const { return layout_.rank(coordinates_, axes); }

  /// fsdp: the ranks over which each unit's parameters are sharded; this rank alone where each holds a copy.
  [[nodiscard]] int fsdp_size() const { return sharing_.is_sharded ? size(fsdp_axes) : 1; }
  [[nodiscard]] int fsdp_rank() const { return sharing_.is_sharded ? rank(fsdp_axes) : 0; }
  /// replicate: the ranks that hold the same rank shard, also along fsdp_axes where each holds a copy.
  [[nodiscard]] AxisSet replicate_axes() const {
    return sharing_.is_sharded ? replica_axes.without(fsdp_axes) : replica_axes;
  }
  [[nodiscard]] int replicate_size() const { return size(replicate_axes()); }
  /// reshard: the neighbours in fsdp that together keep a unit whole after its forward pass.
  [[nodiscard]] int reshard_size() const { return sharing_.reshard_size == 0 ? fsdp_size() : sharing_.reshard_size; }
  [[nodiscard]] int reshard_rank() const { return fsdp_rank() % reshard_size(); }
  /// data: the ranks that read different rows.
  [[nodiscard]] int data_size() const { return size(data_axes); }
  [[nodiscard]] int data_rank() const { return rank(data_axes); }

  /// Whether this rank speaks for its rows: ranks that differ in other axes alone read the same ones.
  [[nodiscard]] bool owns_rows() const { return rank(every_axis.without(data_axes)) == 0; }
  /// Whether it speaks for its tokens: ranks that differ in tp or pp alone have the same ones.
  [[nodiscard]] bool owns_tokens() const { return rank({Axis::pp, Axis::tp}) == 0; }
  /// Whether it speaks for its rank shard of the parameters, as the first of the ranks of replicate. ShardMap
  /// (parallel) adds what tp ranks hold in common.
  [[nodiscard]] bool owns_shard() const { return rank(replicate_axes()) == 0; }

 private:
  Layout layout_;
  Coordinates coordinates_;
  Sharing sharing_;
};

/// The sizes that a ValidConfig names.
[[nodiscard]] Layout layout_of(const config::Parallel& parallel);
/// What its zero_stage and reshard_after_forward say.
[[nodiscard]] Sharing sharing_of(const config::Parallel& parallel);

}  // namespace sft::mesh
