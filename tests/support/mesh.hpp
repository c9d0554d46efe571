// SPDX-License-Identifier: Apache-2.0
#pragma once
// Meshes over any part of the ranks of an MPI test.

#include "sft/comm/group.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/model/head_split.hpp"
#include "sft/parallel/sharding_policy.hpp"
#include "support/barrier.hpp"
#include "support/layout.hpp"

namespace sft::test {

/// This rank's place in a mesh, and its groups.
struct Mesh {
  /// Collective over `world`.
  Mesh(const comm::Group& world, const mesh::Layout& layout, const mesh::Sharing& sharing = {})
      : place(layout, WorldRank::from(world.rank())), groups(world, place, sharing) {}
  /// That of a run with such a model and these keys, whatever sizes are in them.
  Mesh(const comm::Group& world, const mesh::Layout& layout, const config::Model& model, config::Parallel parallel = {})
      : Mesh(world, layout, sharing_of(layout, model, parallel)) {}

  mesh::Place place;
  mesh::Groups groups;

 private:
  static mesh::Sharing sharing_of(const mesh::Layout& layout, const config::Model& model, config::Parallel& parallel) {
    set_mesh(parallel, layout);
    return parallel::sharing_of(parallel::sharding_policy(parallel), model::kv_replicas(model, layout[Axis::tp]));
  }
};

/// A mesh of this rank alone, in a world of any size: computes what the mesh of all must reproduce. Local.
[[nodiscard]] inline Mesh make_lone_mesh(const config::Model& model) { return {comm::self_group(), {}, model}; }

}  // namespace sft::test
