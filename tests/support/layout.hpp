// SPDX-License-Identifier: Apache-2.0
#pragma once
// Meshes as tables of tests write them.

#include "sft/config/config.hpp"
#include "sft/mesh/layout.hpp"

namespace sft::test {

/// The axes that tables give a size, in this order; all others have one rank.
struct Layout : mesh::Layout {
  constexpr Layout(int dp_replicate, int dp_shard, int sp, int tp)
      : mesh::Layout{{Axis::dp_replicate, dp_replicate}, {Axis::dp_shard, dp_shard}, {Axis::sp, sp}, {Axis::tp, tp}} {}
};

/// Gives every axis that has a key its size in `layout`.
inline void set_mesh(config::Parallel& parallel, const mesh::Layout& layout) {
  for (const config::AxisKeys& keys : config::axis_keys) parallel.*keys.size = layout[keys.axis];
}

}  // namespace sft::test
