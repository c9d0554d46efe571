// SPDX-License-Identifier: Apache-2.0
#pragma once
// Meshes over any part of the ranks of an MPI test.

#include "sft/comm/group.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/model/head_split.hpp"
#include "support/barrier.hpp"
#include "support/layout.hpp"

namespace sft::test {

/// This rank's place in a mesh, and its groups.
struct Mesh {
  /// Collective over `world`.
  Mesh(const comm::Group& world, const mesh::Layout& layout, int num_kv_replicas = 1, const mesh::Sharing& sharing = {})
      : place(layout, world.rank(), sharing), groups(world, place, num_kv_replicas) {}
  Mesh(const comm::Group& world, const mesh::Layout& layout, const config::Model& model,
       const mesh::Sharing& sharing = {})
      : Mesh(world, layout, model::kv_replicas(model, layout[Axis::tp]), sharing) {}

  mesh::Place place;
  mesh::Groups groups;
};

/// A mesh of this rank alone, in a world of any size: computes what the mesh of all must reproduce. Local.
[[nodiscard]] inline Mesh make_lone_mesh(const config::Model& model) { return {comm::self_group(), {}, model}; }

}  // namespace sft::test
