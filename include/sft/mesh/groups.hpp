// SPDX-License-Identifier: Apache-2.0
#pragma once
// The groups of ranks that this rank communicates in.

#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/comm/group.hpp"
#include "sft/core/axis.hpp"
#include "sft/mesh/place.hpp"

namespace sft::mesh {

/// What decides who is in a group, beside the mesh.
struct Sharing {
  AxisSet shard_axes = fsdp_axes;  ///< over which units are sharded; none: each rank along fsdp_axes holds a copy
  /// Neighbours in fsdp, and in expert_fsdp, that keep units together between passes; 1: none do.
  int reshard_size = 1;
  int kv_replicas = 1;         ///< neighbours in tp that hold the same key/value heads
  bool gathers_apart = false;  ///< gathers of units have communicators of their own, beside those of their sums
};

/// What tensors are sent for, as far as NCCL has to know.
struct TensorUse {
  AxisArray<int> max_ctas = {};     ///< how many thread blocks it may use on each axis; 0: its own choice
  bool exchanges_matrices = false;  ///< over fsdp, expert_fsdp and tp too
  bool rounds_gradients = false;    ///< sums over fsdp and replicate, and those of experts, travel as bf16
  bool rounds_tp_sums = false;      ///< those over tp do
};

/// All groups of one mesh. A group of one rank is MPI_COMM_SELF, and no message is sent in it.
struct Groups {
  /// Collective over `world`, whose ranks stand where `place` says of each. Throws a configuration Error, the same on
  /// every rank, unless the mesh has as many ranks as the world; std::logic_error where reshard_size does not divide
  /// fsdp or expert_fsdp, or kv_replicas tp.
  Groups(const comm::Group& world, const Place& place, const Sharing& sharing);

  /// The groups of the rank at `place` in a mesh that is not there, for planning: they have ranks, sizes and names, and
  /// must not communicate. Local.
  [[nodiscard]] static Groups planned(const Place& place, const Sharing& sharing);

  comm::Group world;
  comm::Group replicate;    ///< ranks with one rank shard, but other tokens: their gradients are summed once a step
  comm::Group fsdp;         ///< the other rank shards of the same units
  comm::Group gathers;      ///< the same ranks, for gathers of units; fsdp itself, unless Sharing says gathers_apart
  comm::Group reshard;      ///< the neighbours in fsdp that keep units whole between forward and backward pass
  comm::Group sp;           ///< the other parts of this rank's rows
  comm::Group tp;           ///< the other slices of this rank's heads, columns and vocabulary
  comm::Group rows;         ///< those with the same rows, along sp and tp: the first of them reads
  comm::Group kv_replicas;  ///< the tp neighbours that hold the same key/value heads
  comm::Group ep;           ///< the ranks with the other experts, to which tokens go

  // The first four of experts, whose ranks hold the same experts; where ep has one rank, those very groups.
  comm::Group expert_replicate, expert_fsdp, expert_gathers, expert_reshard;

  /// The groups that tensors are sent in: all of more than one rank, but world and rows.
  [[nodiscard]] std::vector<comm::TensorGroup> of_tensors() const { return of_tensors({}); }
  [[nodiscard]] std::vector<comm::TensorGroup> of_tensors(const TensorUse& use) const;

 private:
  Groups() = default;
};

}  // namespace sft::mesh
