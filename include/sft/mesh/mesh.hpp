#pragma once
// This rank's place in the mesh, and the groups it communicates in.

#include "sft/comm/group.hpp"
#include "sft/comm/session.hpp"
#include "sft/mesh/layout.hpp"

namespace sft::mesh {

/// All groups are made once, by the constructor.
class Mesh {
 public:
  /// Collective over the world. `num_kv_heads` >= 1 are the key/value heads of the whole model: when fewer than the tp
  /// ranks, they divide these (split_heads checks that), and kv_replicas are the ranks that share one. Throws a
  /// configuration Error, the same on every rank, unless layout.size() is the world size. The session outlives it.
  Mesh(const comm::Session& session, const Layout& layout, int num_kv_heads);

  Layout layout;
  Coordinates coordinates;
  comm::Group world;
  comm::Group replicate;    ///< same parameter shard, other rows: their gradients are summed once a step
  comm::Group shard;        ///< dp_shard
  comm::Group sp;           ///< the other parts of this rank's rows
  comm::Group tp;           ///< the other slices of this rank's heads, columns and vocabulary
  comm::Group data;         ///< replicate x shard: other rows
  comm::Group fsdp;         ///< shard x sp: holders of one parameter unit's shards
  comm::Group model;        ///< sp x tp: the ranks that see the same rows
  comm::Group parameters;   ///< shard x sp x tp: together hold every parameter (replicated ones more than once)
  comm::Group tokens;       ///< replicate x shard x sp: together hold every token of the batch
  comm::Group kv_replicas;  ///< the tp neighbours that hold the same key/value heads

  /// Index of this rank's rows among the data-parallel ranks, and their number.
  [[nodiscard]] int data_rank() const { return data.rank(); }
  [[nodiscard]] int data_size() const { return data.size(); }
};

}  // namespace sft::mesh
