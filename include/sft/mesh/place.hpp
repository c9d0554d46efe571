// SPDX-License-Identifier: Apache-2.0
#pragma once
// What follows from the sizes of the mesh and a rank number alone. Pure: works for any rank of any mesh, without MPI.

#include "sft/config/config.hpp"
#include "sft/mesh/layout.hpp"

namespace sft::mesh {

/// How attention heads lie over tp. With fewer key/value heads than ranks, tp_size / num_kv_heads neighbouring ranks
/// hold the same one.
struct HeadSplit {
  int q_heads = 1;      ///< local query heads
  int kv_heads = 1;     ///< local key/value heads
  int kv_begin = 0;     ///< global index of the first
  int kv_replicas = 1;  ///< ranks that hold each key/value head
};
/// The heads of rank `tp_rank`. Throws std::logic_error unless tp_size divides num_heads, and of num_kv_heads and
/// tp_size one divides the other.
[[nodiscard]] HeadSplit split_heads(int num_heads, int num_kv_heads, int tp_size, int tp_rank);

/// Where a rank stands. Each group is described by its size and this rank's number in it.
class Place {
 public:
  /// The only rank of a mesh of one.
  Place() = default;
  /// Rank `rank` of `layout`, for a model with these heads in all. Throws std::logic_error where split_heads does, or
  /// when there is no such rank.
  Place(const Layout& layout, int rank, int num_heads, int num_kv_heads);
  /// Rank `rank` of the mesh that a validated configuration describes.
  Place(const config::Config& config, int rank);

  /// Another rank of the same mesh.
  [[nodiscard]] Place peer(int rank) const;

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const Coordinates& coordinates() const { return coordinates_; }
  [[nodiscard]] const HeadSplit& heads() const { return heads_; }
  [[nodiscard]] int rank() const { return layout_.rank(coordinates_); }

  /// fsdp = dp_shard x sp: the ranks over which each unit's parameters are sharded.
  [[nodiscard]] int fsdp_size() const { return layout_.dp_shard * layout_.sp; }
  [[nodiscard]] int fsdp_rank() const { return coordinates_.dp_shard * layout_.sp + coordinates_.sp; }
  /// data = dp_replicate x dp_shard: the ranks that read different rows.
  [[nodiscard]] int data_size() const { return layout_.dp_replicate * layout_.dp_shard; }
  [[nodiscard]] int data_rank() const { return coordinates_.dp_replicate * layout_.dp_shard + coordinates_.dp_shard; }

  /// Whether this rank speaks for its rows: ranks that differ in sp or tp alone read the same ones.
  [[nodiscard]] bool owns_rows() const { return coordinates_.sp == 0 && coordinates_.tp == 0; }
  /// Whether it speaks for its tokens: ranks that differ in tp alone have the same ones.
  [[nodiscard]] bool owns_tokens() const { return coordinates_.tp == 0; }
  /// Whether it speaks for its rank shard of the parameters: ranks that differ in dp_replicate alone hold the same one.
  /// ShardMap (parallel) adds what tp ranks hold in common.
  [[nodiscard]] bool owns_shard() const { return coordinates_.dp_replicate == 0; }

 private:
  Layout layout_;
  Coordinates coordinates_;
  HeadSplit heads_;
};

/// The sizes that a validated configuration names.
[[nodiscard]] Layout layout_of(const config::Parallel& sizes);

}  // namespace sft::mesh
