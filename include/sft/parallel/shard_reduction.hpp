// SPDX-License-Identifier: Apache-2.0
#pragma once
// Maxima and sums of values that the ranks which share the parameters each know in part.

#include "sft/comm/collectives.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/part.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// On the stream of the backend. All ranks get the same. Collective over the ranks with the shards of one part and tp.
class ShardReduction {
 public:
  /// References outlive it. `shards`: PartGroups::shards of the part.
  ShardReduction(const mesh::Groups& groups, ops::Backend& backend, comm::Collectives& collectives,
                 PartGroups::Member shards = PartGroups{}.shards)
      : shards_(groups.*shards), tp_(groups.tp), backend_(backend), collectives_(collectives) {}

  /// values, float32 or float64, = their maximum, or their sum, over these groups.
  void max(const Tensor& values) const { reduce(values, comm::ReduceOp::max); }
  void sum(const Tensor& values) const { reduce(values, comm::ReduceOp::sum); }

 private:
  void reduce(const Tensor& values, comm::ReduceOp op) const {
    for (const comm::Group* group : {&shards_, &tp_}) {
      if (group->size() > 1) collectives_.all_reduce(*group, values, op, backend_.stream());
    }
  }

  const comm::Group &shards_, &tp_;
  ops::Backend& backend_;
  comm::Collectives& collectives_;
};

}  // namespace sft::parallel
