// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of an NCCL communicator find each other: each connects to a rank that made an id ("root"), which tells
// it of the others. With one root for all of a large world, that rank takes thousands of connections one after the
// other, so there is one for every so many ranks.

#include <nccl.h>

#include <vector>

#include "sft/comm/group.hpp"

namespace sft::comm {

inline constexpr int ranks_per_root = 128;

/// How many roots a group of `size` ranks has, each for `per_root` of them at most: from 1 on. Pure.
[[nodiscard]] constexpr int num_roots(int size, int per_root = ranks_per_root) {
  return (size + per_root - 1) / per_root;
}
/// The rank that makes id `root` of `count`: the first of its part of the ranks. Pure.
[[nodiscard]] constexpr int rank_of_root(int root, int count, int size) {
  return static_cast<int>(static_cast<long long>(root) * size / count);
}

/// The ids of the group's roots, the same on all its ranks. Collective. Throws an Error where NCCL makes none.
[[nodiscard]] std::vector<ncclUniqueId> share_unique_ids(const Group& group, int per_root = ranks_per_root);

}  // namespace sft::comm
